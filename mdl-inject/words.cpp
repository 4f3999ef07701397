#include "mdl-inject/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "format/query_verbs.h"
#include "mdl-inject/other_tools.h"
#include "mdl-inject/wrong_words.h"

namespace mdl::inject {
namespace {

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

}  // namespace

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}

bool is_list(const std::string& text) {
  return text.find(',') != std::string::npos && text.find_first_not_of("0123456789,") == std::string::npos;
}

bool is_query(const std::string& word) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz";
  if (word.empty() || std::string_view(kLetters).find(word[0]) == std::string_view::npos) return false;
  const size_t end = word.find_first_not_of(std::string(kLetters) + "0123456789");
  if (end == std::string::npos || word.ends_with(".plan") || word.ends_with(".bin") || word.ends_with(".mdl"))
    return false;
  return std::isspace(static_cast<unsigned char>(word[end])) ||
         (word[end] == '(' && format::is_query_verb(word.substr(0, end)));
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

bool take_top(std::vector<std::string>& words) {
  const bool is_second = words.size() == 2 && is_number(words[0]);
  const auto at = words.begin() + (is_second ? 1 : 0);
  if (at == words.end() || *at != "top") return false;
  words.erase(at);
  return true;
}

}  // namespace mdl::inject
