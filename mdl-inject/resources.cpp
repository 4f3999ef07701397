#include "mdl-inject/resources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/installed.h"
#include "base/say.h"
#include "format/kinds.h"
#include "mdl-inject/commands.h"
#include "mdl-inject/measure.h"
#include "mdl-inject/memory_list.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/output/figures.h"
#include "runtime/output/rows.h"
#include "runtime/process/target.h"

namespace mdl::inject {
namespace {

constexpr std::string_view kLocks = "/SyncObject", kThreads = "/Thread";
constexpr double kMoment = 1;  // seconds that are measured where -d says nothing else
constexpr double kLook = 0.05;

struct LockKind {
  std::string_view name, metric;  // of stdlib-metrics/locks.mdl
};
constexpr std::string_view kSizes[] = {"read_sizes", "write_sizes"};  // of stdlib-metrics/files.mdl
constexpr LockKind kKinds[] = {{"Mutex", "mutex_latency"},
                               {"RwLock", "rwlock_latency"},
                               {"Condition", "condition_latency"},
                               {"Semaphore", "semaphore_latency"},
                               {"Barrier", "barrier_latency"}};

bool is_below(std::string_view path, std::string_view hierarchy) {
  return path == hierarchy || (path.starts_with(hierarchy) && path[hierarchy.size()] == '/');
}

class Listing final : public output::Consumer {
 public:
  Listing(output::Sink& sink, std::string_view format) : sink_(sink), format_(format) {}

  Result<void> sample(std::span<const output::Point> points, bool final) override {
    if (!final) return {};
    struct Row {
      uint64_t count = 0;
      int64_t total = 0;
      std::string text;  // of the totals
      nlohmann::ordered_json totals = nlohmann::ordered_json::object();
    };
    std::map<std::string, Row> rows;
    size_t width = 0;
    bool is_of_locks = false;
    for (const output::Point& point : points) {
      const auto* observed = std::get_if<output::Observed>(&point.value);
      if (output::is_zero(point) && (observed == nullptr || observed->of.count() == 0)) continue;
      const std::string& metric = point.series->metric;
      Row& row = rows[point.series->focus];
      row.count += observed ? observed->of.count() : 0;
      row.total += output::number(point.value).total;
      const std::string_view name = metric == kSizes[0]   ? "bytes_read"
                                    : metric == kSizes[1] ? "bytes_written"
                                                          : "time_ns";
      row.totals[std::string(name)] = output::number(point.value).total;
      is_of_locks = std::ranges::find(kSizes, metric) == std::end(kSizes);
      if (is_of_locks)
        row.text = "  " + output::total_text(point);
      else
        row.text += fmt::format("  {:>14} {}", output::grouped(output::number(point.value).total),
                                metric == kSizes[0] ? "read" : "written");
      width = std::max(width, point.series->focus.size());
    }
    std::vector<std::pair<std::string, Row>> lines(rows.begin(), rows.end());
    std::ranges::stable_sort(lines, std::greater(), [](const auto& line) { return line.second.total; });
    const std::string_view one = is_of_locks ? "wait " : "call ", many = is_of_locks ? "waits" : "calls";
    std::string text;
    output::Rows objects(format_);
    for (const auto& [focus, row] : lines) {
      if (objects.has_objects()) {
        nlohmann::ordered_json object = {{"path", focus}, {"calls", row.count}};
        object.update(row.totals);
        text += objects.of(object);
        continue;
      }
      text +=
          fmt::format("{:<{}}  {:>12} {}{}\n", focus, width, output::grouped(static_cast<int64_t>(row.count)),
                      row.count == 1 ? one : many, row.text);
    }
    return sink_.write(text + objects.end());
  }

 private:
  output::Sink& sink_;
  std::string format_;
};

int list_threads(const Options& options) {
  if (auto ok = separate_reading(options); !ok) return fail(ok.error());
  if (auto ok = process::check_target(options.pid); !ok) return fail(ok.error());
  const std::string glob = options.glob == kThreads ? "/Thread/*" : options.glob;
  std::vector<pid_t> threads = process::live_threads(options.pid);
  std::ranges::sort(threads);
  size_t printed = 0;
  output::Rows rows(options.format);
  for (const pid_t thread : threads) {
    const std::string path = fmt::format("{}/{}", kThreads, thread);
    std::string name = kernel::proc_text(thread, "comm");
    while (name.ends_with('\n')) name.pop_back();
    const std::string by_name = fmt::format("{}/{}", kThreads, name);
    if (fnmatch(glob.c_str(), path.c_str(), 0) != 0 && fnmatch(glob.c_str(), by_name.c_str(), 0) != 0)
      continue;
    if (rows.has_objects())
      say_text(stdout, rows.of({{"path", path}, {"tid", thread}, {"name", name}}));
    else
      say("{}  {}\n", path, name);
    printed++;
  }
  say_text(stdout, rows.end());
  if (printed == 0)
    say(stderr, "mdl-inject: no thread of process {} matches '{}'\n", options.pid, options.glob);
  return printed == 0 ? 1 : 0;
}

bool is_of_descriptors(std::string_view glob) {
  return is_below(glob, format::kFiles) || is_below(glob, format::kSockets);
}

// The metrics that find them, "" where there are none of that kind; all without a kind.
Result<std::vector<std::string>> metrics_for(const std::string& glob) {
  std::vector<std::string> out;
  if (is_of_descriptors(glob)) {
    for (const std::string_view metric : kSizes) out.push_back(fmt::format("{}@{}", metric, glob));
    return out;
  }
  std::string rest = glob.substr(std::min(glob.size(), kLocks.size() + 1));
  const std::string kind = rest.substr(0, rest.find('/'));
  rest.erase(0, kind.size() + 1);
  for (const LockKind& one : kKinds)
    if (kind == one.name)
      out.push_back(rest.empty() ? std::string(one.metric)
                                 : fmt::format("{}@{}/{}/{}", one.metric, kLocks, one.name, rest));
  if (kind.empty() || kind == "*" || !out.empty()) return out;
  std::vector<std::string_view> kinds;
  for (const LockKind& one : kKinds) kinds.push_back(one.name);
  return Error{fmt::format("there is no {}/{} that can be listed; there are {}/{{{}}}", kLocks, kind, kLocks,
                           fmt::join(kinds, ",")),
               Status::usage};
}

}  // namespace

bool lists_resources(const Options& options) {
  return is_below(options.glob, kLocks) || is_below(options.glob, kThreads) ||
         is_below(options.glob, kMemory) || is_of_descriptors(options.glob);
}

int list_resources(const Options& options, const Policy& policy) {
  if (is_below(options.glob, kThreads)) return list_threads(options);
  if (is_below(options.glob, kMemory)) return list_memory(options);
  auto metrics = metrics_for(options.glob);
  if (!metrics) return fail(metrics.error());
  Options moment = options;
  moment.command = Command::measure;
  moment.is_listing = true;
  moment.plan = installed(is_of_descriptors(options.glob) ? "plans/files.plan" : "plans/locks.plan");
  moment.metrics = std::move(*metrics);
  if (!moment.duration) moment.duration = kMoment;
  // A socket has a peer as long as it is there: a sample that comes later finds its inode only.
  const double look = is_of_descriptors(options.glob) ? kLook : *moment.duration;
  moment.interval = std::min(look, *moment.duration);
  moment.interval_given = true;
  return measure(moment, policy);
}

std::unique_ptr<output::Consumer> make_listing(output::Sink& sink, std::string_view format) {
  return std::make_unique<Listing>(sink, format);
}

}  // namespace mdl::inject
