#include "compiler/sema/settings.h"

#include <algorithm>
#include <set>

#include "compiler/support/suggest.h"

namespace mdl::sema {
namespace {

// What is written most often.
std::string example_of(std::string_view key) {
  struct Row {
    std::string_view key, text;
  };
  constexpr Row kRows[] = {
      {"base", "base is counter { foreach f in LIST append preInsn f.entry (* NAME++; *) }"},
      {"flavor", "flavor { unix };"},
      {"units", "units Calls;"},
      {"aggregateOperator", "aggregateOperator sum;"},
      {"style", "style EventCounter;"},
      {"name", "name \"Calls of malloc\";"},
      {"items", "items { \"malloc\", \"free\" };"},
      {"command", "command \"./server --port 80\";"},
  };
  for (const Row& row : kRows)
    if (row.key == key) return "for example: " + std::string(row.text);
  return "";
}

}  // namespace

void Settings::missing(std::string_view key) {
  diagnostics_.report(DiagnosticCode::missing_field, first_line(), subject_.noun, subject_.name.text, key)
      .hint(example_of(key));
}

void Settings::doubled(std::string_view key, Span first, Span second) {
  diagnostics_.report(DiagnosticCode::doubled_field, first_line(), subject_.noun, subject_.name.text, key)
      .note(first, "here")
      .note(second, "and here");
}

const ast::Setting* Settings::find(std::string_view key, Need need) {
  const ast::Setting* found = nullptr;
  for (const ast::Setting& s : settings_) {
    if (s.key.text != key) continue;
    if (found != nullptr) {
      doubled(key, found->key.span, s.key.span);
      break;
    }
    found = &s;
  }
  if (found == nullptr && need == Need::required) missing(key);
  return found;
}

std::string Settings::choice(std::string_view key, std::span<const std::string_view> choices, Need need,
                             std::string fallback) {
  const ast::Setting* s = find(key, need);
  if (s == nullptr) return fallback;
  const ast::Literal& value = s->values[0];
  if (std::find(choices.begin(), choices.end(), value.text) != choices.end()) return value.text;
  const std::vector<std::string_view> words(choices.begin(), choices.end());
  diagnostics_.report(DiagnosticCode::bad_choice, value.span, printable(value.text), key, one_of(words))
      .hint(did_you_mean(value.text, words));
  return fallback;
}

std::string Settings::text(std::string_view key, Need need) {
  const ast::Setting* s = find(key, need);
  return s == nullptr ? "" : s->values[0].text;
}

std::vector<std::string> Settings::flavors(Need need) {
  const ast::Setting* s = find("flavor", need);
  return s == nullptr ? std::vector<std::string>{} : distinct(s->values, diagnostics_);
}

std::vector<std::string> distinct(const std::vector<ast::Literal>& values, Diagnostics& diagnostics) {
  std::vector<std::string> words;
  std::set<std::string_view> seen;
  for (const ast::Literal& value : values) {
    if (seen.insert(value.text).second)
      words.push_back(value.text);
    else
      diagnostics.report(DiagnosticCode::repeated_item, value.span, printable(value.text));
  }
  return words;
}

}  // namespace mdl::sema
