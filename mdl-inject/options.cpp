#include "mdl-inject/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <span>

#include "base/installed.h"
#include "base/result.h"
#include "base/say.h"
#include "mdl-inject/combinations.h"
#include "mdl-inject/command_line.h"
#include "mdl-inject/origin.h"
#include "mdl-inject/other_tools.h"
#include "mdl-inject/words.h"
#include "mdl-inject/wrong_words.h"
#include "runtime/kernel/broker.h"

namespace mdl::inject {
namespace {

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

Command command_of(const CommandLine& line) {
  const Options& o = line.options;
  const bool is_process_alone = line.commands() == 0 && !o.busiest &&
                                line.words.size() == (o.process.empty() && !o.names_group() ? 1 : 0);
  const bool asks_nothing = o.metrics.empty() && o.foci.empty() &&
                            (line.words.empty() || is_number(line.words[0]) || is_list(line.words[0]));
  return line.list                          ? Command::list
         : line.status                      ? Command::status
         : line.remove                      ? Command::remove
         : line.verify                      ? Command::verify
         : line.metrics                     ? Command::metrics
         : o.check && is_process_alone      ? Command::check
         : is_process_alone && asks_nothing ? Command::introduce
                                            : Command::measure;
}

// What the options do not fill themselves.
void take_values(CommandLine& line) {
  Options& o = line.options;
  o.busiest = take_top(line.words);
  o.command = command_of(line);
  o.start = line.run;
  o.separate = o.separate || (!line.joined && kernel::has_privileges());
  o.max_pause = std::chrono::milliseconds(line.max_pause);
  o.interval_given = line.has("--interval");
  o.max_keys_given = line.has("--max-keys");
  if (line.has("--duration")) o.duration = line.duration;
  if (line.has("--budget")) o.budget = line.budget;
  if (line.has("--require-signed")) o.trusted = line.trusted;
}

// Gives the words their meaning, or says what is wrong with them or with what they go with.
std::optional<std::string> understand(CommandLine& line, size_t behind) {
  Options& o = line.options;
  if (line.commands() > 1)
    return "--list, --metrics, --run, --status, --remove and --verify exclude each other";
  if (auto wrong = assign_words(o, line.words, behind)) return wrong;
  if (auto wrong = wrong_combination(line)) return wrong;
  if (!is_number(o.process)) return std::nullopt;
  auto wrong = set_pid(o, o.process);
  o.process.clear();
  return wrong;
}

}  // namespace

Parsed parse_options(int argc, const char* const* argv) {
  Parsed out;
  if (argc > 1 && access(argv[1], F_OK) != 0)
    if (const std::string instead = instead_of_command({argv + 1, static_cast<size_t>(argc - 1)});
        !instead.empty()) {
      out.exit = usage(instead);
      return out;
    }
  CommandLine line(out.options);
  try {
    line.app.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& problem) {
    out.exit = problem.get_exit_code() == 0 ? line.app.exit(problem) : usage(wrong_option(line.app, problem));
    return out;
  }
  if (line.traps)
    say(stderr, "mdl-inject: note: --allow-traps changes nothing: this version sets no traps\n");
  Options& o = out.options;
  take_values(line);
  if (auto wrong = understand(line, words_behind(argc, argv)))
    out.exit = usage(*wrong);
  else if (o.interval_given && o.command == Command::measure)
    note_interval(o, line.app["--interval"]->results()[0]);
  o.plan = find_plan(o.plan);
  return out;
}

}  // namespace mdl::inject
