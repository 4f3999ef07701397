#include "mdl-inject/wrong_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "base/near_names.h"
#include "format/query_verbs.h"
#include "mdl-inject/other_tools.h"

namespace mdl::inject {
namespace {

// What other tools call it.
struct Foreign {
  std::string_view option, instead;
};
constexpr Foreign kForeign[] = {
    {"--pid", "a process stands in front, `mdl-inject PID`, or behind -p"},
    {"-e", "a query needs no option: 'count malloc'"},
    {"--timeout", "-d says how long it is measured"},
    {"-t", "-d says how long it is measured, and `by thread` has a line for each thread"},
    {"-n", "--top says how many lines the table has, -d how long it is measured"},
    {"-c", "a program is started with --run 'count malloc' -- COMMAND ARGS..."},
    {"--json", "--format ndjson has a line of JSON for each value, --format json a document"},
    {"-F", "nothing is sampled but by `mdl-inject top PID`; all else is counted, each call"},
    {"-g", "there are no stacks: 'count malloc by caller' has the place of each call"},
    {"-T", "'latency read' has how long each call takes"},
    {"-y", "'latency read by fd($arg[0])' has a line for each descriptor, with its file"},
    {"-l", "--list PID has the functions of a process"},
    {"-a", "--all has all lines of the table, --all-children the processes below one"},
};

std::string unknown_option(const CLI::App& app, const std::string& option) {
  const std::string said = fmt::format("there is no option {}", option);
  if (option == "-e")
    for (const std::string& word : app.get_option("words")->results())
      if (const std::string instead = instead_of_probe(word); !instead.empty())
        return fmt::format("{}: {}", said, instead);
  for (const Foreign& row : kForeign)
    if (row.option == option) return fmt::format("{}: {}", said, row.instead);
  std::string bare = option.substr(0, option.find('='));
  bare.erase(0, bare.find_first_not_of('-'));  // or every short one would be near
  std::vector<std::string> names;
  for (const CLI::Option* one : app.get_options())
    names.insert(names.end(), one->get_lnames().begin(), one->get_lnames().end());
  const auto near = near_names(bare, {names.begin(), names.end()}, {.least = 1, .longest = 64});
  const auto nearest = std::ranges::min_element(near, {}, &NearName::changes);
  return nearest == near.end() ? said : fmt::format("{}; did you mean --{}?", said, nearest->name);
}

// A query that begins so.
std::string example_with(std::string_view verb) {
  constexpr std::string_view kOfValues[] = {"sum", "min", "max", "avg", "hist"};
  if (verb == "bytes") return "bytes by file";
  const bool takes_value = std::ranges::find(kOfValues, verb) != std::end(kOfValues);
  return fmt::format("{} {}malloc", verb, takes_value ? "$arg[0] at " : "");
}

}  // namespace

std::string without_quotes(std::span<const std::string> words) {
  if (words.size() < 2 || !format::is_query_verb(words[0])) return "";
  return fmt::format("a query is one word, in quotes: '{}'", fmt::join(words, " "));
}

std::string beside_query(const std::string& query, std::span<const std::string> words) {
  constexpr std::string_view kConditions[] = {"if", "where", "when", "filter"},
                             kClauses[] = {"by", "within", "at", "as"};
  const std::string& first = words[0];
  if (first.ends_with(".plan") || first.ends_with(".bin") || first.find('/') != first.npos)
    return fmt::format(
        "{} is compiled already, and queries are not: measure it alone, or the queries by a second "
        "mdl-inject while the first one runs",
        first);
  if (is_number(first)) return fmt::format("several processes are named by -p: -p PID,{}", first);
  const bool is_condition = std::ranges::find(kConditions, first) != std::end(kConditions);
  if (!is_condition && std::ranges::find(kClauses, first) == std::end(kClauses))
    return fmt::format("'{}' is no query: {}", first, no_such_plan(first));
  const std::string more = fmt::format("{}", fmt::join(words.subspan(1), " "));
  return fmt::format("a query is one word, in quotes: '{} {} {}'", query, is_condition ? "if" : first,
                     !more.empty()  ? more
                     : is_condition ? "CONDITION"
                                    : "...");
}

std::string no_such_plan(const std::string& word) {
  if (word.starts_with('/') || word.starts_with('.') || word.ends_with(".plan") || word.ends_with(".bin"))
    return "";
  if (std::string instead = instead_of_tool(word); !instead.empty()) return instead;
  if (format::is_query_verb(word))
    return fmt::format("a query is one word, in quotes: '{}'", example_with(word));
  if (std::string instead = instead_of_probe(word); !instead.empty()) return instead;
  if (is_identifier(word)) return fmt::format("the calls of a function are a query: 'count {}'", word);
  return "a query begins with count, time, latency or another word of docs/queries.md, in small letters: "
         "'count malloc'";
}

std::string command_as_word(const std::string& word) {
  constexpr std::string_view kCommands[] = {"list", "status", "remove", "check",  "metrics",
                                            "run",  "verify", "help",   "version"};
  if (std::ranges::find(kCommands, word) == std::end(kCommands)) return "";
  return fmt::format("'{}' is an option: --{}", word, word);
}

std::string wrong_option(const CLI::App& app, const CLI::ParseError& problem) {
  if (dynamic_cast<const CLI::ExtrasError*>(&problem) != nullptr) {
    const std::vector<std::string> left = app.remaining();
    const auto option =
        std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-'); });
    if (option != left.end()) return unknown_option(app, *option);
  }
  const std::string text = problem.what();
  const size_t most = text.find(": At Most 1 required");
  return most == text.npos ? text : fmt::format("{} is given more than once", text.substr(0, most));
}

}  // namespace mdl::inject
