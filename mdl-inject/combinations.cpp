#include "mdl-inject/combinations.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "mdl-inject/words.h"
#include "runtime/output/rows.h"

namespace mdl::inject {
namespace {

// What does not go with several processes.
std::optional<std::string> wrong_several(const Options& o) {
  if (o.start || o.command == Command::verify)
    return "--every, --all-children, --cgroup, --container and --follow are of processes that run: they "
           "do not go with --run and --verify";
  for (const auto& [option, name] : {std::pair("--cgroup", o.cgroup), std::pair("--container", o.container)})
    if (is_query(name))
      return fmt::format("{} takes a name, and a query stands behind that: {} NAME '{}'", option, option,
                         name);
  if (o.names_group() && !o.process.empty())
    return "--cgroup and --container stand in the place of PID and -p";
  if (!o.cgroup.empty() && !o.container.empty()) return "--cgroup and --container exclude each other";
  if (o.every && (o.process.empty() || is_list(o.process)))
    return "--every goes with a name: -p NAME --every";
  const bool by_ids = o.process.empty() || is_number(o.process) || is_list(o.process);
  if (o.follow && by_ids && !o.names_group() && !o.all_children)
    return "--follow goes with -p NAME, --all-children, --cgroup or --container: an id is of one process";
  if (o.follow && (o.command != Command::measure || o.dry_run))
    return "--follow goes with measuring: it waits for processes";
  if (o.changes()) return "--commands is for one process";
  if (o.command != Command::measure && o.command != Command::status && o.command != Command::remove)
    return "several processes can be measured, looked at with --status and rid of us with --remove: all else "
           "is for one";
  return std::nullopt;
}

// What does not go with top.
std::optional<std::string> wrong_top(const CommandLine& line) {
  const Options& o = line.options;
  if (line.commands() > 0) return "top is a command of its own, as --list and --run are";
  if (o.names_several()) return "top is for one process";
  if (!o.metrics.empty() || !o.foci.empty() || o.changes())
    return "top finds by itself what to measure: it goes with neither -m, -f nor --commands";
  if (!(o.sample >= 0.01 && o.sample <= 3600)) return "--sample must be between 10ms and 1h";
  return std::nullopt;
}

// What is printed of one that has no samples.
std::optional<std::string> wrong_format(const CommandLine& line) {
  const Options& o = line.options;
  if (o.format.empty()) return std::nullopt;
  if (line.remove || line.verify)
    return "--format is of measured values and of --list, --metrics, --status and --dry-run; what --remove "
           "and --verify print has one form";
  const bool has_rows = line.list || line.metrics || line.status || o.dry_run;
  if (!has_rows || std::ranges::find(output::kRowFormats, o.format) != std::end(output::kRowFormats))
    return std::nullopt;
  return fmt::format("{} prints a table, ndjson (an object in each line) or json (an array of them)",
                     line.list      ? "--list"
                     : line.metrics ? "--metrics"
                     : line.status  ? "--status"
                                    : "--dry-run");
}

std::optional<std::string> wrong_number(const Options& o) {
  if (!(o.interval >= 0.001 && o.interval <= 86400))
    return "the interval must be between 0.001 and 86400 seconds";
  if (o.duration && !(*o.duration >= 0 && *o.duration <= 1e9)) return "the duration must not be negative";
  if (o.budget && !(*o.budget >= 0 && *o.budget <= 1e12)) return "the budget must not be negative";
  return std::nullopt;
}

std::optional<std::string> wrong_changes(const Options& o) {
  if (!o.changes()) return std::nullopt;
  if (!o.typed.empty()) return "--commands does not go with queries";
  if (o.follow_fork || o.await) return "--commands goes with neither --follow-fork nor --await";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_combination(const CommandLine& line) {
  const Options& o = line.options;
  if (!o.process.empty() && (line.run || line.verify)) return "-p does not go with --run and --verify";
  if (auto wrong = wrong_format(line)) return wrong;
  if (line.has("--sample") && !o.busiest) return "--sample goes with top";
  if (o.busiest)
    if (auto wrong = wrong_top(line)) return wrong;
  if (o.names_several())
    if (auto wrong = wrong_several(o)) return wrong;
  if (auto wrong = wrong_number(o)) return wrong;
  return wrong_changes(o);
}

}  // namespace mdl::inject
