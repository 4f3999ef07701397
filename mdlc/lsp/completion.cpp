#include "mdlc/lsp/completion.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/sema/bind.h"
#include "compiler/sema/calls.h"
#include "compiler/sema/definitions.h"
#include "compiler/sema/metrics.h"
#include "format/manifest_tables.h"
#include "mdlc/lsp/context.h"
#include "mdlc/lsp/names.h"

namespace mdl::lsp {
namespace {

using Words = std::vector<std::string_view>;

const Words kDefinitions = {"resourceList", "constraint", "metric",           "daemon",
                            "process",      "visi",       "tunable_constant", "exclude"};
const Words kMetricFields = {"name", "units", "unitsType", "aggregateOperator", "style",     "flavor",
                             "mode", "focus", "base",      "counter",           "constraint"};
const Words kListFields = {"items", "flavor", "library"};
const Words kStatements = {"foreach", "if", "append", "prepend"};

// The words that a field takes, by the field.
Words choices(std::string_view field) {
  auto of = [](const auto& table) { return Words(std::begin(table), std::end(table)); };
  if (field == "unitsType") return of(format::kUnitsTypes);
  if (field == "style") return of(format::kStyles);
  if (field == "mode") return of(format::kModes);
  if (field == "aggregateOperator") return of(format::kAggregates);
  if (field == "library") return {"true", "false"};
  return {};
}

class Completer {
 public:
  Completer(const Analysis& analysis, Context context) : analysis_(analysis), context_(std::move(context)) {}

  std::vector<Completion> complete() {
    if (last() == ".") {
      members();
      return std::move(items_);
    }
    switch (context_.place) {
      case Place::nowhere:
      case Place::values:
        break;
      case Place::top:
        top();
        break;
      case Place::metric:
        metric();
        break;
      case Place::list:
        empty() ? keywords(kListFields) : constants(choices(last()));
        break;
      case Place::tool:
        if (empty()) keywords(sema::tool_fields());
        break;
      case Place::statements:
        statement();
        break;
      case Place::code:
        code();
        break;
    }
    return std::move(items_);
  }

 private:
  bool empty() const { return context_.words.empty(); }
  std::string_view last() const { return empty() ? std::string_view() : context_.words.back(); }
  std::string_view first() const { return empty() ? std::string_view() : context_.words.front(); }

  void add(std::string_view label, ItemKind kind, std::string detail = "") {
    items_.push_back({std::string(label), kind, std::move(detail)});
  }
  void keywords(const Words& words) {
    for (std::string_view word : words) add(word, ItemKind::keyword);
  }
  void constants(const Words& words) {
    for (std::string_view word : words) add(word, ItemKind::constant);
  }

  void top() {
    if (empty()) keywords(kDefinitions);
    size_t count = context_.words.size();
    bool list = first() == "resourceList" || first() == "List" || first() == "list";
    if (list && count == 3 && last() == "is")
      return constants(Words(std::begin(format::kListTypes), std::end(format::kListTypes)));
    if ((list && count == 2) || (first() == "constraint" && count > 3 && last() != "/" && last() != "is"))
      return keywords({"is"});
    if (first() == "constraint" && last() == "is") {
      constants(sema::cell_type_names(false));
      return keywords({"default"});
    }
    if (first() == "exclude") return keywords({"noCase", "regex"});
    if (empty() || first() == "foreach" || first() == "if" || first() == "append" || first() == "prepend")
      statement();
  }

  void metric() {
    if (empty()) return keywords(kMetricFields);
    if (first() == "base") return base();
    if (first() == "constraint" && context_.words.size() == 1) {
      for (const auto& [name, span] : analysis_.symbols.constraints)
        add(name, ItemKind::variable, "a constraint");
      return;
    }
    if (first() == "constraint" && last() == "replace") return constants(sema::cell_type_names(false));
    if (first() == "constraint" && last() == "is") return keywords({"replace"});
    if (context_.words.size() == 1) constants(choices(first()));
  }

  void base() {
    if (std::ranges::find(context_.words, "by") != context_.words.end()) return keys();
    if (last() == "is") return constants(sema::cell_type_names(true));
    if (last() == "keyed") return keywords({"by"});
    keywords({context_.words.size() < 2 ? "is" : "keyed"});
  }

  void keys() {
    values_of_process();
    add("$caller", ItemKind::constant);
    for (const std::string_view name : format::kKeyNames)
      if (format::key_call(name)) add(name, ItemKind::function, "a key that is shown as that");
  }

  void values_of_process() {
    for (std::string_view name : sema::kValuesOfProcess) add(name, ItemKind::constant);
  }

  void statement() {
    std::string_view word = last();
    if (word == "in") return places();
    if (word == "append" || word == "prepend") {
      keywords({"preInsn", "postInsn"});
      return places();
    }
    bool condition = first() == "if" && std::count(context_.words.begin(), context_.words.end(), "(") >
                                            std::count(context_.words.begin(), context_.words.end(), ")");
    if (word == "preInsn" || word == "postInsn" || word == "preinsn" || word == "postinsn" || condition)
      return places();
    if (is_at_point()) return keywords({"constrained"});
    if (word != "foreach") keywords(kStatements);
  }

  bool is_at_point() const {
    auto insert = std::find_if(context_.words.rbegin(), context_.words.rend(),
                               [](std::string_view w) { return w == "append" || w == "prepend"; });
    return insert != context_.words.rend() && insert != context_.words.rbegin();
  }

  void places() {
    with_binder([&](sema::Binder& binder) {
      for (const Loop& loop : context_.loops)
        if (const sema::Type* type = binder.variable(loop.variable))
          add(loop.variable, ItemKind::variable, about(*type));
    });
    for (const auto& [name, list] : analysis_.symbols.lists)
      add(name, ItemKind::variable, about({sema::Kind::list, list.element.value_or(sema::Kind::string)}));
    for (std::string_view name : sema::built_in_names()) add(name, ItemKind::constant);
    if (!context_.selects.empty()) add("$constraint", ItemKind::constant);
  }

  void code() {
    for (std::string_view cell : context_.cells) add(cell, ItemKind::variable, "a counter");
    values_of_process();
    if (!context_.selects.empty()) add("$constraint", ItemKind::constant);
    for (std::string_view name : sema::call_names()) {
      const sema::CallForm* form = sema::find_call(name);
      if (form->modern.empty()) add(name, ItemKind::function, fmt::format("takes {}", form->takes));
    }
    keywords({"if", "else"});
  }

  // The members of the value before the dot.
  void members() {
    with_binder([&](sema::Binder& binder) {
      std::optional<sema::Bound> object = bind(binder, context_.object);
      if (!object) return;
      sema::Kind owner = object->type.kind;
      if (object->expr.kind == format::ExprKind::start) owner = sema::Kind::procedure;
      for (std::string_view name : sema::member_names(owner))
        add(name, ItemKind::field, about(sema::find_member(owner, name)->type));
    });
  }

  template <typename Function>
  void with_binder(Function function) {
    sema::Owner owner;
    if (!context_.selects.empty()) {
      ast::Path path;
      for (std::string_view part : context_.selects) path.parts.push_back({std::string(part), {}});
      sema::select_path(owner, path, false);
    }
    Diagnostics ignored;
    sema::Binder binder(analysis_.symbols, owner, analysis_.sources, ignored);
    for (const Loop& loop : context_.loops)
      if (std::optional<sema::Bound> list = bind(binder, loop.list))
        binder.enter(loop.variable, {list->type.element});
    function(binder);
  }

  // The value of a place's text. Spans in it belong to no source, and nobody looks at them.
  std::optional<sema::Bound> bind(sema::Binder& binder, const std::string& place) const {
    Source source(static_cast<uint32_t>(analysis_.sources.size()), "", fmt::format("append {} (* *)", place));
    Diagnostics ignored;
    ast::File file = parse(source, ignored);
    if (ignored.has_errors() || file.definitions.size() != 1) return std::nullopt;
    auto* statement = std::get_if<ast::Statement>(&file.definitions[0].node);
    auto* insert = statement != nullptr ? std::get_if<ast::Insert>(&statement->node) : nullptr;
    return insert != nullptr ? binder.bind(insert->point) : std::nullopt;
  }

  const Analysis& analysis_;
  Context context_;
  std::vector<Completion> items_;
};

}  // namespace

std::vector<Completion> complete(const Analysis& analysis, uint32_t offset) {
  return Completer(analysis, context_at(analysis.source(), offset)).complete();
}

}  // namespace mdl::lsp
