#include "mdl-inject/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <span>

#include "base/installed.h"
#include "base/result.h"
#include "base/say.h"
#include "format/query_verbs.h"
#include "mdl-inject/origin.h"
#include "mdl-inject/other_tools.h"
#include "mdl-inject/wrong_words.h"
#include "runtime/kernel/broker.h"
#include "runtime/output/formats.h"
#include "runtime/output/rows.h"

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

int usage(const std::string& text) {
  say(stderr, "mdl-inject: {}\nTry 'mdl-inject --help'.\n", text);
  return static_cast<int>(Status::usage);
}

// A name without a folder means the standard plan of that name where there is one: whoever may write to the current
// folder must not put another in its place.
std::string find_plan(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return name;
  const std::string standard = installed("plans/" + name);
  return access(standard.c_str(), F_OK) == 0 ? standard : name;
}

// A query has several words, of which the first one begins with a small letter and goes on with these and digits (`p99
// malloc` is none, which mdlc says), or a verb and what it is about in parentheses. A file is not looked for: whoever may
// write to the current folder must not put one in its place.
bool is_query(const std::string& word) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz";
  if (word.empty() || std::string_view(kLetters).find(word[0]) == std::string_view::npos) return false;
  const size_t end = word.find_first_not_of(std::string(kLetters) + "0123456789");
  if (end == std::string::npos || word.ends_with(".plan") || word.ends_with(".bin") || word.ends_with(".mdl"))
    return false;
  return std::isspace(static_cast<unsigned char>(word[end])) ||
         (word[end] == '(' && format::is_query_verb(word.substr(0, end)));
}

// What is to be measured: queries and sources, or one plan.
std::optional<std::string> add_metrics(Options& out, std::span<const std::string> words) {
  if (std::string meant = without_quotes(words); !meant.empty()) return meant;
  std::vector<std::string> others;
  std::ranges::copy_if(words, std::back_inserter(others),
                       [](const std::string& word) { return !is_query(word) && !word.ends_with(".mdl"); });
  if (const auto query = std::ranges::find_if(words, is_query); query != words.end() && !others.empty())
    return beside_query(*query, others);
  for (const std::string& word : words) {
    if (is_query(word)) {
      if (std::find(out.typed.begin(), out.typed.end(), word) == out.typed.end()) out.typed.push_back(word);
    } else if (word.ends_with(".mdl")) {
      out.sources.push_back(word);
    } else if (!out.plan.empty()) {
      return fmt::format(
          "'{}' is one argument too many: a second plan (queries and sources may be several, and "
          "are written like 'count malloc' and mine.mdl)",
          word);
    } else {
      out.plan = word;
    }
  }
  if (!out.sources.empty() && !out.plan.empty())
    return fmt::format(
        "{} is a plan, which is compiled already, and {} is a source: measure them one after the other",
        out.plan, out.sources[0]);
  return std::nullopt;
}

// 12,13
bool is_list(const std::string& text) {
  return text.find(',') != std::string::npos && text.find_first_not_of("0123456789,") == std::string::npos;
}

std::optional<std::string> set_pid(Options& out, const std::string& text) {
  if (!is_number(text) || text.find_first_not_of('0') == std::string::npos)
    return fmt::format("'{}' is not a process id{}", text,
                       is_query(text) ? "; it is a query, and needs one in front of it, or -p NAME"
                       : !instead_of_probe(text).empty()
                           ? "; " + instead_of_probe(text)
                           : fmt::format("; by its name a process is asked for with -p {}", text));
  // A number that no process can have is not wrong usage: it is a process that is not there.
  long value = text.size() > 9 ? INT32_MAX : std::strtol(text.c_str(), nullptr, 10);
  out.pid = static_cast<pid_t>(value);
  return std::nullopt;
}

// The meaning of the positional words depends on the command. `behind`: how many stand behind `--`.
std::optional<std::string> assign_words(Options& out, std::span<const std::string> words, size_t behind) {
  if (out.show_mdl) {  // of no process
    for (const std::string& word : words)
      if (is_query(word)) out.typed.push_back(word);
    return out.typed.empty() ? std::optional<std::string>("--show-mdl needs a query, such as 'count malloc'")
                             : std::nullopt;
  }
  if (out.start) {  // the words are what to measure, then the command
    if (words.empty()) return "a plan is needed, and a command unless the plan has a process";
    const size_t ours = behind > 0 && behind < words.size() ? words.size() - behind : 1;
    out.run.assign(words.begin() + static_cast<ptrdiff_t>(ours), words.end());
    return add_metrics(out, words.first(ours));
  }
  const auto query = std::ranges::find_if(out.metrics, is_query);
  if (query != out.metrics.end())
    return fmt::format("-m names a metric of a plan; a query stands without it: '{}'", *query);
  const bool wants_pid = out.command != Command::verify && out.process.empty() && !out.names_group() &&
                         (out.command != Command::metrics || !words.empty());
  if (wants_pid && !words.empty())
    if (std::string command = command_as_word(words[0]); !command.empty()) return command;
  const bool measures = out.command == Command::measure;
  if (out.busiest && words.size() > (wants_pid ? 1 : 0))
    return fmt::format("'{}' is one argument too many: top finds by itself what to measure", words.back());
  const size_t least =
      (wants_pid ? 1 : 0) + ((measures && !out.busiest) || out.command == Command::verify ? 1 : 0);
  const auto is_no_process = [](const std::string& word) {
    return is_query(word) || !instead_of_probe(word).empty();
  };
  if (words.size() < least && wants_pid && !words.empty() && is_no_process(words[0]))
    return set_pid(out, words[0]);
  if (words.size() < least)
    return measures && !out.busiest
               ? (wants_pid
                      ? "a process and a query or a plan are needed, as in mdl-inject PID 'count malloc' or "
                        "mdl-inject -p NAME 'count malloc'; either alone says what can be asked of it"
                      : "a query or a plan is needed")
           : out.command == Command::verify ? "a plan is needed"
                                            : "a process id is needed";
  if (wants_pid && is_list(words[0])) {
    out.process = words[0];
    words = words.subspan(1);
  } else if (wants_pid) {
    if (auto wrong = set_pid(out, words[0])) return wrong;
    words = words.subspan(1);
  }
  if (measures) return add_metrics(out, words);
  const size_t most = out.command == Command::list || out.command == Command::verify ? 1 : 0;
  if (words.size() > most) return fmt::format("'{}' is one argument too many", words[most]);
  if (words.size() == 1) (out.command == Command::list ? out.glob : out.plan) = words[0];
  return std::nullopt;
}

// In front, or behind the process. Whether it was there.
bool take_top(std::vector<std::string>& words) {
  const bool is_second = words.size() == 2 && is_number(words[0]);
  const auto at = words.begin() + (is_second ? 1 : 0);
  if (at == words.end() || *at != "top") return false;
  words.erase(at);
  return true;
}

// The words, the last one first as CLI11 takes them. --require-signed may stand alone: then it gets the
// default.
std::vector<std::string> arguments(int argc, const char* const* argv) {
  std::vector<std::string> out;
  bool ours = true;  // until the command of --run
  for (int i = 1; i < argc; i++) {
    std::string word = argv[i];
    ours = ours && word != "--";
    if (ours && word == "--require-signed") {
      const bool named = i + 1 < argc && names_keys(argv[i + 1]);
      word += "=" + (named ? argv[++i] : default_keys());
    }
    out.push_back(std::move(word));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

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

CLI::Option* add_time(CLI::App& app, const char* name, double& into, const char* description) {
  const auto take = [name, &into](const std::string& text) {
    const auto given = seconds(text);
    if (!given)
      throw CLI::ValidationError(name,
                                 fmt::format("'{}' is no time: 2 (seconds), 100ms, 1.5s, 1m or 2h", text));
    into = *given;
  };
  return app.add_option_function<std::string>(name, take, description)->type_name("TIME");
}

// Other tools have milliseconds there: who types 100 and means these would wait for his second line.
void note_interval(const Options& o, const std::string& typed) {
  constexpr double kLong = 60;
  const bool is_bare = typed.find_first_not_of("0123456789.") == std::string::npos;
  const bool is_over = o.duration && o.interval > std::max(*o.duration, 10.0);
  if (!is_bare || (o.interval <= kLong && !is_over)) return;
  say(stderr, "mdl-inject: note: -i {0} is a line each {0} seconds; -i {0}ms is one each {0} milliseconds\n",
      typed);
}

// How many words stand behind `--`.
size_t words_behind(int argc, const char* const* argv) {
  for (int i = 1; i < argc; i++)
    if (std::string_view(argv[i]) == "--") return static_cast<size_t>(argc - i - 1);
  return 0;
}

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
std::optional<std::string> wrong_top(const Options& o, bool other) {
  if (other) return "top is a command of its own, as --list and --run are";
  if (o.names_several()) return "top is for one process";
  if (!o.metrics.empty() || !o.foci.empty() || o.changes())
    return "top finds by itself what to measure: it goes with neither -m, -f nor --commands";
  if (!(o.sample >= 0.01 && o.sample <= 3600)) return "--sample must be between 10ms and 1h";
  return std::nullopt;
}

}  // namespace

Parsed parse_options(int argc, const char* const* argv) {
  Parsed out;
  Options& o = out.options;
  CLI::App app(kDescription, "mdl-inject");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("mdl-inject ") + MDL_VERSION);
  std::vector<std::string> words;
  double duration = 0;
  std::string trusted;
  std::vector<std::string> formats;
  for (const output::Format& format : output::formats()) formats.emplace_back(format.name);
  app.add_option("words", words, "PID, and queries, sources or a plan")->group("");
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
  app.add_flag("--show-mdl", o.show_mdl, "Print the MDL that the queries stand for, and measure nothing");
  app.add_option("-m,--metric", o.metrics,
                 "A metric of the plan, with its focus; may be repeated (default: all)")
      ->type_name("METRIC[@FOCUS]")
      ->allow_extra_args(false);
  app.add_option("-f,--focus", o.foci, "A focus for each -m that names none; may be repeated")
      ->type_name("FOCUS")
      ->allow_extra_args(false);
  auto* interval_option = add_time(app, "-i,--interval", o.interval,
                                   "Time between samples (default 1 second, or the plan's samplingRate)");
  auto* duration_option = add_time(app, "-d,--duration", duration, "Stop after so long");
  app.add_option("--format", o.format,
                 output::format_names("or") +
                     " (default: table on a terminal, else ndjson); json and ndjson with --list, --metrics, "
                     "--status and --dry-run, too")
      ->check(CLI::IsMember(formats));
  auto* sample_option = add_time(app, "--sample", o.sample,
                                 "With top: look for the busiest functions for so long (default 1 second)");
  std::vector<std::string> orders;
  for (const std::string_view order : output::kOrders) orders.emplace_back(order);
  app.add_option("--top", o.look.top,
                 "In the table: lines of each metric, the largest ones (default 20; on a terminal what "
                 "fits); with top: "
                 "functions that are measured (default 10)")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, size_t{1} << 24));
  app.add_option("--sort", o.look.sort,
                 "In the table: what the largest is by (default total; on a terminal rate)")
      ->check(CLI::IsMember(orders));
  app.add_flag("--all", o.look.all, "In the table: all lines, also those with 0, and names whole");
  app.add_flag("--timing", o.timing, "Say at the end how long each phase of the attach took");
  app.add_flag("-v,--verbose", o.verbose, "Name each point and metric that cannot be measured, and say why");
  app.add_option("-o,--output", o.output, "Write the samples to a file")->type_name("FILE");
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
  app.add_flag("--allow-calls", o.allow_calls, "Let code of metrics call functions of the application");
  app.add_flag("--allow-reads", o.allow_reads,
               "Let code of metrics read memory of the application at addresses that it computes");
  app.add_flag("--allow-command", o.allow_command, "With --run: start the plan's own command");
  app.add_flag("--raw-times", o.raw_times,
               "Times as the clocks show them: with what the instrumentation takes inside of them");
  double budget = 0;
  auto* budget_option =
      app.add_option(
             "--budget", budget,
             "Refuse when the code of a point is predicted to take more than so many nanoseconds a hit "
             "(default: warn above 1000)")
          ->type_name("NS");
  auto* trusted_option =
      app.add_option("--require-signed", trusted,
                     "Take only a plan that is signed with a trusted key: a PEM file, or a directory of them "
                     "(default $MDL_TRUSTED_KEYS or /etc/mdl/trusted-keys)")
          ->type_name("[KEYS]");
  app.add_flag("--await", o.await,
               "What -m asks for may come with a library that is loaded later: wait for it");
  app.add_option(
         "--commands", o.commands,
         "Read lines `add METRIC[@FOCUS]` and `remove METRIC[@FOCUS]` from a file or a FIFO, and change "
         "what is measured")
      ->type_name("FILE");
  auto* share_option = app.add_flag(
      "--share", o.makes_room, "Make room for all that other mdl-inject may ask of the process meanwhile");
  app.add_flag("--alone", o.alone,
               "Neither measure beside another mdl-inject nor let another one measure beside this one")
      ->excludes(share_option);
  bool traps = false;
  app.add_flag("--allow-traps", traps,
               "Permit traps where no jump fits; this version sets none, so nothing changes");
  auto* keys_option = app.add_option("--max-keys", o.max_keys,
                                     "Keys of a focus such as /Message/* (default: as many as 48 MB hold, "
                                     "524288, or the plan's maxKeys)")
                          ->type_name("N")
                          ->check(CLI::Range(uint64_t{1}, resident::kMostKeys));
  bool joined = false;
  auto* separate_option = app.add_flag("--separate", o.separate,
                                       "Give up all privileges but in a process that does nothing but touch "
                                       "the target (default where there are "
                                       "privileges: docs/security.md)");
  app.add_flag("--no-separate", joined, "Keep the privileges where what the target has made is read")
      ->excludes(separate_option);
  app.add_flag("--break-lock", o.break_lock,
               "End another mdl-inject that holds the lock on the process and does not let go of it");
  int max_pause = static_cast<int>(process::kMaxPause.count());
  app.add_option(
         "--max-pause", max_pause,
         "Stop the process for no more than so many milliseconds at once to insert, or take the attach "
         "back (default 50)")
      ->type_name("MS")
      ->check(CLI::Range(1, 60000));
  bool list = false, run = false, status = false, remove = false, verify = false, metrics = false;
  app.add_flag(
         "--run", run,
         "Start a program, instrumented before its first instruction: --run PLAN [-- COMMAND]; without one "
         "the plan's process")
      ->group("Other commands");
  app.add_flag("--list", list,
               "List the functions of a process; with /SyncObject its locks, with /File and /Socket what it "
               "reads and writes, with /Thread its threads, with /Memory its variables")
      ->group("Other commands");
  app.add_flag("--metrics", metrics, "List the standard metrics; with a PID, those that the process can have")
      ->group("Other commands");
  app.add_flag("--status", status, "Say what is in a process, with its values")->group("Other commands");
  app.add_flag("--remove", remove, "Take the instrumentation out")->group("Other commands");
  app.add_flag("--verify", verify, "Check a plan without a process")->group("Other commands");
  if (argc > 1 && access(argv[1], F_OK) != 0)
    if (const std::string instead = instead_of_command({argv + 1, static_cast<size_t>(argc - 1)});
        !instead.empty()) {
      out.exit = usage(instead);
      return out;
    }
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& problem) {
    out.exit = problem.get_exit_code() == 0 ? app.exit(problem) : usage(wrong_option(app, problem));
    return out;
  }
  if (traps) say(stderr, "mdl-inject: note: --allow-traps changes nothing: this version sets no traps\n");
  const bool other = list || run || status || remove || verify || metrics;
  o.busiest = take_top(words);
  const bool alone =
      !other && !o.busiest &&
      words.size() == (o.process.empty() && !o.names_group() ? 1 : 0);  // a process, and no more
  const bool introduce = alone && o.metrics.empty() && o.foci.empty() &&
                         (words.empty() || is_number(words[0]) || is_list(words[0]));
  if (list + run + status + remove + verify + metrics > 1) {
    out.exit = usage("--list, --metrics, --run, --status, --remove and --verify exclude each other");
    return out;
  }
  o.command = list               ? Command::list
              : status           ? Command::status
              : remove           ? Command::remove
              : verify           ? Command::verify
              : metrics          ? Command::metrics
              : o.check && alone ? Command::check
              : introduce        ? Command::introduce
                                 : Command::measure;
  o.start = run;
  o.separate = o.separate || (!joined && kernel::has_privileges());
  o.max_pause = std::chrono::milliseconds(max_pause);
  o.interval_given = static_cast<bool>(*interval_option);
  o.max_keys_given = static_cast<bool>(*keys_option);
  if (*duration_option) o.duration = duration;
  if (*budget_option) o.budget = budget;
  if (*trusted_option) o.trusted = trusted;
  std::optional<std::string> wrong = assign_words(o, words, words_behind(argc, argv));
  if (!wrong && !o.process.empty() && (run || verify)) wrong = "-p does not go with --run and --verify";
  if (!wrong && !o.format.empty() && (remove || verify))
    wrong =
        "--format is of measured values and of --list, --metrics, --status and --dry-run; what --remove and "
        "--verify print has one form";
  const bool has_rows = list || metrics || status || o.dry_run;
  if (!wrong && has_rows && std::ranges::find(output::kRowFormats, o.format) == std::end(output::kRowFormats))
    wrong = fmt::format("{} prints a table, ndjson (an object in each line) or json (an array of them)",
                        list      ? "--list"
                        : metrics ? "--metrics"
                        : status  ? "--status"
                                  : "--dry-run");
  if (!wrong && *sample_option && !o.busiest) wrong = "--sample goes with top";
  if (!wrong && o.busiest) wrong = wrong_top(o, other || run);
  if (!wrong && o.names_several()) wrong = wrong_several(o);
  if (!wrong && is_number(o.process)) {
    wrong = set_pid(o, o.process);
    o.process.clear();
  }
  if (!wrong && !(o.interval >= 0.001 && o.interval <= 86400))
    wrong = "the interval must be between 0.001 and 86400 seconds";
  if (!wrong && o.duration && !(*o.duration >= 0 && *o.duration <= 1e9))
    wrong = "the duration must not be negative";
  if (!wrong && o.budget && !(*o.budget >= 0 && *o.budget <= 1e12)) wrong = "the budget must not be negative";
  if (!wrong && o.changes() && !o.typed.empty()) wrong = "--commands does not go with queries";
  if (!wrong && o.changes() && (o.follow_fork || o.await))
    wrong = "--commands goes with neither --follow-fork nor --await";
  if (wrong)
    out.exit = usage(*wrong);
  else if (o.interval_given && o.command == Command::measure)
    note_interval(o, interval_option->results()[0]);
  o.plan = find_plan(o.plan);
  return out;
}

}  // namespace mdl::inject
