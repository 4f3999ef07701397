#include "compiler/sema/definitions.h"

#include <algorithm>
#include <charconv>

#include "compiler/sema/settings.h"
#include "compiler/sema/types.h"
#include "compiler/support/suggest.h"
#include "format/manifest_tables.h"
#include "format/pattern.h"

namespace mdl::sema {
namespace {

using LiteralKind = ast::Literal::Kind;

bool is_decimal(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Items of int and float lists may be quoted, as in the short form.
bool fits(const ast::Literal& item, Kind element) {
  bool number =
      item.kind == LiteralKind::integer || (item.kind == LiteralKind::string && is_decimal(item.text));
  if (element == Kind::integer) return number;
  if (element == Kind::floating) return number || item.kind == LiteralKind::floating;
  return item.kind == LiteralKind::string;
}

std::string_view item_noun(Kind element) {
  if (element == Kind::integer) return "integers";
  return element == Kind::floating ? "numbers" : "strings";
}

// The values that fields of daemon, process and visi hold.
enum class Holds : uint8_t { word, number, words };
struct ToolField {
  std::string_view name;
  Holds holds;
};
constexpr ToolField kToolFields[] = {
    {"command", Holds::word},     {"name", Holds::word},     {"flavor", Holds::words},
    {"host", Holds::word},        {"dir", Holds::word},      {"user", Holds::word},
    {"daemon", Holds::word},      {"exclude", Holds::words}, {"remoteShell", Holds::word},
    {"autoStart", Holds::number}, {"force", Holds::number},  {"limit", Holds::number},
    {"metfocus", Holds::word},    {"MPItype", Holds::word},  {"mrnet_topology", Holds::word},
};

std::string_view noun_of_setting(Holds holds) {
  constexpr std::string_view kNouns[] = {"one string or name", "one number, true or false", "names"};
  return kNouns[static_cast<size_t>(holds)];
}

bool fits(const ast::Setting& s, Holds holds) {
  auto is_word = [](const ast::Literal& l) {
    return l.kind == LiteralKind::string || l.kind == LiteralKind::name;
  };
  switch (holds) {
    case Holds::word:
      return s.values.size() == 1 && is_word(s.values[0]);
    case Holds::words:
      return std::all_of(s.values.begin(), s.values.end(), is_word);
    case Holds::number:
      return s.values.size() == 1 &&
             (s.values[0].kind == LiteralKind::integer || s.values[0].kind == LiteralKind::boolean);
  }
  return false;
}

// The one value of a field of a tool that may be null; null when it has none.
const ast::Literal* value_of(const ast::Tool* tool, std::string_view key) {
  if (tool == nullptr) return nullptr;
  for (const ast::Setting& s : tool->settings)
    if (s.key.text == key && !s.values.empty()) return &s.values[0];
  return nullptr;
}

}  // namespace

format::ResourceList check_list(const ast::ResourceList& list, Span span, Diagnostics& diagnostics) {
  format::ResourceList result;
  result.name = list.name.text;
  result.type = list.type.text;
  Settings settings({"resourceList", list.name, span}, list.settings, diagnostics);

  std::optional<Kind> element = list_element(list.type.text);
  const std::vector<std::string_view> types(std::begin(format::kListTypes), std::end(format::kListTypes));
  if (!element)
    diagnostics
        .report(DiagnosticCode::bad_choice, list.type.span, list.type.text, "type of a list", one_of(types))
        .hint(did_you_mean(list.type.text, types));
  if (const ast::Setting* items = settings.find("items", Need::required)) {
    for (const ast::Literal& item : items->values)
      if (element && !fits(item, *element))
        diagnostics.report(DiagnosticCode::bad_value, item.span,
                           fmt::format("a list of type {}", list.type.text), item_noun(*element));
    result.items = distinct(items->values, diagnostics);
    if (element == Kind::floating)
      for (std::string& item : result.items) item = shortest_float(item).value_or(item);
  }
  result.flavors = settings.flavors(Need::optional);
  result.library = settings.text("library", Need::optional) == "true";
  return result;
}

void check_tool(const ast::Tool& tool, Span span, Diagnostics& diagnostics) {
  std::string_view noun_of_tool = ast::spelling(tool.kind);
  Settings settings({noun_of_tool, tool.name, span}, tool.settings, diagnostics);
  std::vector<std::string_view> names;
  for (const ToolField& field : kToolFields) {
    names.push_back(field.name);
    settings.find(field.name, field.name == "command" ? Need::required : Need::optional);
  }
  for (const ast::Setting& s : tool.settings) {
    auto field = std::find_if(std::begin(kToolFields), std::end(kToolFields),
                              [&](const ToolField& f) { return f.name == s.key.text; });
    if (field == std::end(kToolFields))
      diagnostics.report(DiagnosticCode::unknown_field, s.key.span, noun_of_tool, s.key.text)
          .hint(did_you_mean(s.key.text, names));
    else if (!fits(s, field->holds))
      diagnostics.report(DiagnosticCode::bad_value, s.key.span, fmt::format("'{}'", s.key.text),
                         noun_of_setting(field->holds));
  }
}

std::vector<std::string_view> tool_fields() {
  std::vector<std::string_view> names;
  for (const ToolField& field : kToolFields) names.push_back(field.name);
  return names;
}

const ast::Literal* daemon_of(const ast::Tool& process) {
  return value_of(&process, "daemon");
}

format::ProcessDefinition make_process(const ast::Tool& process, const ast::Tool* daemon) {
  auto text = [&](std::string_view key) -> std::string {
    const ast::Literal* found = value_of(&process, key);
    if (found == nullptr) found = value_of(daemon, key);
    return found == nullptr ? "" : found->text;
  };
  return {process.name.text, text("command"), text("dir"), text("flavor"), {}};
}

std::vector<format::Tunable> check_tunables(const ast::Tunables& tunables, Diagnostics& diagnostics) {
  std::vector<format::Tunable> result;
  for (const ast::Setting& s : tunables.settings) {
    const ast::Literal& given = s.values[0];
    double value = given.kind == LiteralKind::boolean && given.text != "false" ? 1 : 0;
    bool number = given.kind == LiteralKind::integer || given.kind == LiteralKind::floating;
    if (number) std::from_chars(given.text.data(), given.text.data() + given.text.size(), value);
    if (given.kind == LiteralKind::string)
      diagnostics.report(DiagnosticCode::bad_value, given.span, fmt::format("'{}'", printable(s.key.text)),
                         "a number, true or false");
    result.push_back({s.key.text, value});
  }
  return result;
}

format::Exclude check_exclude(const ast::Exclude& exclude, Diagnostics& diagnostics) {
  format::Exclude result{exclude.pattern.text, false, false};
  for (const ast::Name& option : exclude.options)
    (option.text == "regex" ? result.regex : result.no_case) = true;
  const std::string& text = result.pattern;
  std::string why;
  if (text.empty()) {
    why = "it is empty";
  } else if (result.regex) {
    if (auto pattern = format::Pattern::make(text, result.no_case); !pattern) why = pattern.error().text;
  } else if (!text.starts_with("/Code/") || text == "/Code/") {
    why = "a path is such as /Code/libc.so.6 or /Code/libc.so.6/malloc";
  }
  if (!why.empty())
    diagnostics.report(DiagnosticCode::bad_exclude, exclude.pattern.span, printable(text), why);
  return result;
}

}  // namespace mdl::sema
