#include "mdl-inject/command_line.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "runtime/output/formats.h"
#include "runtime/output/rows.h"
#include "runtime/resident/layout.h"

namespace mdl::inject {
namespace {

constexpr const char* kDescription =
    "Measures a running process by a compiled plan of metrics, and takes the instrumentation out again.\n\n"
    "  mdl-inject PID 'count malloc if $arg[0] > 4096'            ask in one line: docs/queries.md\n"
    "  mdl-inject -p redis-server 'calls /Code/redis-server/*' 'time call'\n"
    "  mdl-inject PID plan.bin [-m METRIC[@FOCUS]]... [options]   measure by a plan\n"
    "  mdl-inject PID redis.plan                                  by standard metrics\n"
    "  mdl-inject PID mine.mdl                                    by sources\n"
    "  mdl-inject top -p NAME                                     the busiest functions\n"
    "  mdl-inject --run plan.bin [options] -- COMMAND ARGS...     start and measure\n"
    "  mdl-inject PID                                             what can be asked of it\n"
    "  mdl-inject --metrics [PID]                                 the standard metrics\n"
    "  mdl-inject --list PID [GLOB]                               what can be named in a focus\n"
    "  mdl-inject --list PID /SyncObject                          its locks, by measuring for a second\n"
    "  mdl-inject --list PID /File                                the files that it reads and writes\n"
    "  mdl-inject --status PID                                    what is in a process\n"
    "  mdl-inject --remove PID                                    take it out\n"
    "  mdl-inject --check PID                                     compare its flags with the stacks\n"
    "  mdl-inject --verify plan.bin                               check a plan\n"
    "  mdl-inject strace                                          what to type in the place of another tool";

constexpr const char* kFooter =
    "Exit status: 0 done; 1 the request failed and nothing was changed; 2 usage; 3 the target was killed\n"
    "by a signal; 4 the plan was rejected; 5 something had to be left inert in the target.";

// "2", "0.5s", "100ms", "1m", "2h", in seconds.
std::optional<double> seconds(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"min", 60}, {"h", 3600}};
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [behind, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc()) return std::nullopt;
  for (const auto& [unit, size] : kUnits)
    if (unit == std::string_view(behind, static_cast<size_t>(end - behind))) return number * size;
  return std::nullopt;
}

void add_time(CLI::App& app, const char* name, double& into, const char* description) {
  const auto take = [name, &into](const std::string& text) {
    const auto given = seconds(text);
    if (!given)
      throw CLI::ValidationError(name,
                                 fmt::format("'{}' is no time: 2 (seconds), 100ms, 1.5s, 1m or 2h", text));
    into = *given;
  };
  app.add_option_function<std::string>(name, take, description)->type_name("TIME");
}

std::vector<std::string> names_of_formats() {
  std::vector<std::string> out;
  for (const output::Format& format : output::formats()) out.emplace_back(format.name);
  return out;
}

void declare_processes(CommandLine& line) {
  CLI::App& app = line.app;
  Options& o = line.options;
  app.add_option("words", line.words, "PID, and queries, sources or a plan")->group("");
  app.add_option(
         "-p,--process", o.process,
         "In the place of PID: the process of this name, of which there is one; or several, with commas")
      ->type_name("NAME|PID[,...]");
  app.add_flag("--every", o.every, "Each process that has the name of -p, not the only one");
  app.add_flag("--all-children", o.all_children,
               "The processes that descend from those that are named, too, as far as they are there");
  app.add_option("--cgroup", o.cgroup,
                 "In the place of PID: the processes of a control group, and of those below it")
      ->type_name("PATH");
  app.add_option("--container", o.container,
                 "In the place of PID: the processes of a container, by its name or the beginning of its id")
      ->type_name("NAME|ID");
  app.add_flag(
      "--follow", o.follow,
      "Measure the processes, too, that come later and are meant by -p NAME, --all-children, --cgroup "
      "or --container");
  app.add_flag("--skip-refused", o.skip_refused,
               "Of several processes: measure those that can be, where others cannot (default: all or none)");
}

void declare_request(CommandLine& line) {
  CLI::App& app = line.app;
  Options& o = line.options;
  app.add_flag("--show-mdl", o.show_mdl, "Print the MDL that the queries stand for, and measure nothing");
  app.add_option("-m,--metric", o.metrics,
                 "A metric of the plan, with its focus; may be repeated (default: all)")
      ->type_name("METRIC[@FOCUS]")
      ->allow_extra_args(false);
  app.add_option("-f,--focus", o.foci, "A focus for each -m that names none; may be repeated")
      ->type_name("FOCUS")
      ->allow_extra_args(false);
  add_time(app, "-i,--interval", o.interval,
           "Time between samples (default 1 second, or the plan's samplingRate)");
  add_time(app, "-d,--duration", line.duration, "Stop after so long");
}

void declare_output(CommandLine& line) {
  CLI::App& app = line.app;
  Options& o = line.options;
  app.add_option("--format", o.format,
                 output::format_names("or") +
                     " (default: table on a terminal, else ndjson); json and ndjson with --list, --metrics, "
                     "--status and --dry-run, too")
      ->check(CLI::IsMember(names_of_formats()));
  add_time(app, "--sample", o.sample,
           "With top: look for the busiest functions for so long (default 1 second)");
  app.add_option("--top", o.look.top,
                 "In the table: lines of each metric, the largest ones (default 20; on a terminal what "
                 "fits); with top: "
                 "functions that are measured (default 10)")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, size_t{1} << 24));
  app.add_option("--sort", o.look.sort,
                 "In the table: what the largest is by (default total; on a terminal rate)")
      ->check(
          CLI::IsMember(std::vector<std::string>(std::begin(output::kOrders), std::end(output::kOrders))));
  app.add_flag("--all", o.look.all, "In the table: all lines, also those with 0, and names whole");
  app.add_flag("--timing", o.timing, "Say at the end how long each phase of the attach took");
  app.add_flag("-v,--verbose", o.verbose, "Name each point and metric that cannot be measured, and say why");
  app.add_option("-o,--output", o.output, "Write the samples to a file")->type_name("FILE");
}

void declare_session(CommandLine& line) {
  CLI::App& app = line.app;
  Options& o = line.options;
  app.add_option("--flavor", o.flavor, "Which flavor of the lists and metrics applies (default unix)")
      ->type_name("NAME");
  app.add_flag("--dry-run", o.dry_run, "Say what would be patched and what refused; change nothing");
  app.add_flag("--explain", o.explain, "Say what each request became");
  app.add_flag("--strict", o.strict, "Fail when any point is refused");
  app.add_flag("--detach", o.detach, "Leave the instrumentation in the process at the end");
  app.add_flag(
      "--check", o.check,
      "Say what the last sample's check of exits has found, and check with --detach, too; with a PID alone, "
      "check what is in the process now");
  app.add_flag(
      "--follow-fork", o.follow_fork,
      "Measure the children that the process forks, too, and theirs; with --run, the programs that they "
      "execute, too");
}

void declare_consents(CommandLine& line) {
  CLI::App& app = line.app;
  Options& o = line.options;
  app.add_flag("--allow-calls", o.allow_calls, "Let code of metrics call functions of the application");
  app.add_flag("--allow-reads", o.allow_reads,
               "Let code of metrics read memory of the application at addresses that it computes");
  app.add_flag("--allow-command", o.allow_command, "With --run: start the plan's own command");
  app.add_flag("--raw-times", o.raw_times,
               "Times as the clocks show them: with what the instrumentation takes inside of them");
  app.add_option("--budget", line.budget,
                 "Refuse when the code of a point is predicted to take more than so many nanoseconds a hit "
                 "(default: warn above 1000)")
      ->type_name("NS");
  app.add_option("--require-signed", line.trusted,
                 "Take only a plan that is signed with a trusted key: a PEM file, or a directory of them "
                 "(default $MDL_TRUSTED_KEYS or /etc/mdl/trusted-keys)")
      ->type_name("[KEYS]");
}

void declare_company(CommandLine& line) {
  CLI::App& app = line.app;
  Options& o = line.options;
  app.add_flag("--await", o.await,
               "What -m asks for may come with a library that is loaded later: wait for it");
  app.add_option(
         "--commands", o.commands,
         "Read lines `add METRIC[@FOCUS]` and `remove METRIC[@FOCUS]` from a file or a FIFO, and change "
         "what is measured")
      ->type_name("FILE");
  app.add_flag("--share", o.makes_room,
               "Make room for all that other mdl-inject may ask of the process meanwhile");
  app.add_flag("--alone", o.alone,
               "Neither measure beside another mdl-inject nor let another one measure beside this one")
      ->excludes("--share");
  app.add_flag("--allow-traps", line.traps,
               "Permit traps where no jump fits; this version sets none, so nothing changes");
  app.add_option("--max-keys", o.max_keys,
                 "Keys of a focus such as /Message/* (default: as many as 48 MB hold, "
                 "524288, or the plan's maxKeys)")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, resident::kMostKeys));
}

void declare_privileges(CommandLine& line) {
  CLI::App& app = line.app;
  Options& o = line.options;
  app.add_flag("--separate", o.separate,
               "Give up all privileges but in a process that does nothing but touch "
               "the target (default where there are "
               "privileges: docs/security.md)");
  app.add_flag("--no-separate", line.joined, "Keep the privileges where what the target has made is read")
      ->excludes("--separate");
  app.add_flag("--break-lock", o.break_lock,
               "End another mdl-inject that holds the lock on the process and does not let go of it");
  app.add_option(
         "--max-pause", line.max_pause,
         "Stop the process for no more than so many milliseconds at once to insert, or take the attach "
         "back (default 50)")
      ->type_name("MS")
      ->check(CLI::Range(1, 60000));
}

void declare_commands(CommandLine& line) {
  CLI::App& app = line.app;
  app.add_flag(
         "--run", line.run,
         "Start a program, instrumented before its first instruction: --run PLAN [-- COMMAND]; without one "
         "the plan's process")
      ->group("Other commands");
  app.add_flag("--list", line.list,
               "List the functions of a process; with /SyncObject its locks, with /File and /Socket what it "
               "reads and writes, with /Thread its threads, with /Memory its variables")
      ->group("Other commands");
  app.add_flag("--metrics", line.metrics,
               "List the standard metrics; with a PID, those that the process can have")
      ->group("Other commands");
  app.add_flag("--status", line.status, "Say what is in a process, with its values")->group("Other commands");
  app.add_flag("--remove", line.remove, "Take the instrumentation out")->group("Other commands");
  app.add_flag("--verify", line.verify, "Check a plan without a process")->group("Other commands");
}

}  // namespace

CommandLine::CommandLine(Options& into) : options(into), app(kDescription, "mdl-inject") {
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("mdl-inject ") + MDL_VERSION);
  declare_processes(*this);
  declare_request(*this);
  declare_output(*this);
  declare_session(*this);
  declare_consents(*this);
  declare_company(*this);
  declare_privileges(*this);
  declare_commands(*this);
}

}  // namespace mdl::inject
