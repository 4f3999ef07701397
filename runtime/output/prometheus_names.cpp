#include "runtime/output/prometheus_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <vector>

#include "runtime/output/table.h"

namespace mdl::output {
namespace {

constexpr std::string_view kSeconds = "seconds", kBytes = "bytes", kTotal = "total";

template <size_t Size>
bool is_one_of(std::string_view word, const std::string_view (&words)[Size]) {
  return std::ranges::find(words, word) != std::end(words);
}

// What promtool's rules do not let a name have as a word of its own: kinds of metrics, units that are short, and those
// that are not base units.
bool is_reserved(std::string_view word) {
  constexpr std::string_view kKinds[] = {"counter", "gauge", "summary", "untyped", "histogram"};
  constexpr std::string_view kShort[] = {"s",  "ms", "us", "ns", "sec", "b", "kb",
                                         "mb", "gb", "tb", "pb", "m",   "h", "d"};
  constexpr std::string_view kOthers[] = {"minutes", "hours",  "days",       "weeks",   "kelvins",
                                          "inches",  "yards",  "miles",      "bits",    "calories",
                                          "pounds",  "ounces", "fahrenheit", "rankine", "metres"};
  constexpr std::string_view kBase[] = {"seconds", "bytes", "meters", "joules",  "grams",  "volts",
                                        "amperes", "moles", "kelvin", "kelvins", "celsius"};
  constexpr std::string_view kPrefixes[] = {"pico", "nano",  "micro", "milli", "centi", "deci",
                                            "deca", "hecto", "kilo",  "kibi",  "mega",  "mibi",
                                            "giga", "gibi",  "tera",  "tebi",  "peta",  "pebi"};
  if (is_one_of(word, kKinds) || is_one_of(word, kShort) || is_one_of(word, kOthers)) return true;
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) {
    if (!word.starts_with(prefix)) return false;
    const std::string_view unit = word.substr(prefix.size());
    return is_one_of(unit, kBase) || is_one_of(unit, kOthers);
  });
}

// Behind the last word these say what a line of a counter or histogram is.
bool is_reserved_at_end(std::string_view word) {
  constexpr std::string_view kEnds[] = {"total", "count", "sum", "bucket"};
  return is_one_of(word, kEnds);
}

// lookupKeyRead, count malloc by $arg[0]: lookup, key, read; count, malloc, by, arg, 0.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  bool goes_on = false;
  char before = ' ';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_part = byte < 0x80 && std::isalnum(byte);
    if (is_part && (!goes_on || (std::isupper(byte) && std::islower(static_cast<unsigned char>(before)))))
      out.emplace_back();
    if (is_part) out.back() += static_cast<char>(std::tolower(byte));
    goes_on = is_part, before = c;
  }
  return out;
}

void join_last(std::vector<std::string>& words) {
  const std::string last = std::move(words.back());
  words.pop_back();
  words.back() += last;
}

std::string label(std::string_view name, std::string_view value) {
  return fmt::format("{}=\"{}\"", name, escaped_text(value, true));
}

// Of one resource of a focus, as /Code/OBJECT/FUNCTION.
std::string labels_of_resource(std::string_view resource) {
  constexpr std::string_view kCode = "/Code/", kThread = "/Thread/";
  if (resource.starts_with(kThread)) return ',' + label("thread", resource.substr(kThread.size()));
  if (!resource.starts_with(kCode)) return "";
  const std::string_view path = resource.substr(kCode.size());
  const size_t end = std::min(path.find('/'), path.size());
  const std::string object = ',' + label("object", path.substr(0, end));
  return end == path.size() ? object : object + ',' + label("function", path.substr(end + 1));
}

}  // namespace

BaseUnit base_unit(const Series& series) {
  constexpr int kNano = 9, kPico = 12;
  if (series.units == "ns") return {kSeconds, kNano};
  if (series.units == "Picoseconds") return {kSeconds, kPico};
  if (series.units == "Bytes" || series.units == "bytes") return {kBytes};
  return {};
}

std::string in_base_unit(int64_t value, const BaseUnit& unit) {
  std::string digits = fmt::format("{}", value);
  if (unit.digits == 0 || value == 0) return digits;
  const size_t sign = value < 0 ? 1 : 0, behind = static_cast<size_t>(unit.digits);
  if (digits.size() - sign <= behind) digits.insert(sign, behind + 1 - (digits.size() - sign), '0');
  digits.insert(digits.size() - behind, 1, '.');
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

std::string family_name(const Series& series) {
  const std::string_view unit = base_unit(series).name;
  std::vector<std::string> words = {"mdl"};
  if (series.process == 0) words.emplace_back("all");
  for (std::string& word : words_of(series.metric)) {
    if (word == series.units) continue;  // its base unit is said below
    const bool joins = words.size() > 1 && (is_reserved(word) || is_reserved(words.back()));
    words.push_back(std::move(word));
    if (joins) join_last(words);
    while (words.size() > 2 && is_reserved(words.back())) join_last(words);
  }
  if (words.size() > 1 && is_reserved(words.back())) join_last(words);
  if (!unit.empty() && std::ranges::find(words, unit) == words.end()) words.emplace_back(unit);
  if (series.kind != Series::Kind::total)
    while (words.size() > 1 && is_reserved_at_end(words.back())) join_last(words);
  else if (words.back() != kTotal)
    words.emplace_back(kTotal);
  return fmt::format("{}", fmt::join(words, "_"));
}

std::string labels_of(const Series& series) {
  std::string out = series.process == 0 ? "" : fmt::format("pid=\"{}\",", series.process);
  out += label("focus", series.focus);
  // A comma that no resource follows is between parameters (focus/focus.h).
  for (std::string_view rest = series.focus; !rest.empty();) {
    const size_t end = std::min(rest.find(",/"), rest.size());
    out += labels_of_resource(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return series.key.empty() ? out : out + ',' + label("key", key_text(series));
}

std::string escaped_text(std::string_view text, bool in_label) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\\' || (in_label && c == '"')) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace mdl::output
