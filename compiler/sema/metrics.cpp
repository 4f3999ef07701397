// Constraints and metrics.
//
// A named constraint's own counter is a flag: guards test it, and it never goes below
// zero. An in-line constraint replaces the base of its metric, so its own counter is a
// value; in its code the metric's name means that value too, because the code is the base
// in another form. A metric's temporaries belong to its base and its replacements alike,
// each with cells of its own.
#include "compiler/sema/metrics.h"

#include <algorithm>

#include "compiler/sema/bind.h"
#include "compiler/sema/calls.h"
#include "compiler/sema/hierarchy.h"
#include "compiler/sema/settings.h"
#include "compiler/support/foreign_words.h"
#include "compiler/support/suggest.h"
#include "format/manifest_tables.h"

namespace mdl::sema {
namespace {

using format::CellKind;

constexpr std::string_view kVoid = "void";  // there is no value

// With perf's names, in parentheses or to choose from.
std::vector<std::string_view> event_names() {
  return {
#define X(id, name, alias, offset, more) name, std::string_view(alias).empty() ? name : alias,
      MDL_EVENTS(X)
#undef X
  };
}
std::vector<std::string_view> events_with_aliases() {
  return {
#define X(id, name, alias, offset, more) std::string_view(alias).empty() ? name : name " (" alias ")",
      MDL_EVENTS(X)
#undef X
  };
}

// The meaning of `base is X`, `is X`.
struct ValueType {
  bool has_cell = true;  // else it is void
  format::Cell cell;     // without its name
};

std::string canonical_event(std::string_view text) {
  return std::string(format::info(*format::event_or_alias(text)).name);
}

bool check_event(const ast::CellType& type, CellKind kind, Diagnostics& diagnostics) {
  const bool needed = format::info(kind).clock == format::CellClock::event;
  if (needed != type.event.has_value()) {
    diagnostics.report(DiagnosticCode::bad_value, type.event ? type.event->span : type.kind.span,
                       fmt::format("'{}'", type.kind.text), needed ? "an event: (\"EVENT\")" : "no event");
    return false;
  }
  if (!type.event || format::event_or_alias(type.event->text)) return true;
  Suggestion near = did_you_mean(type.event->text, event_names());
  diagnostics.report(DiagnosticCode::unknown_event, type.event->span, printable(type.event->text))
      .hint(near.empty() ? fmt::format("there are {}", one_of(events_with_aliases())) : near.text());
  return false;
}

// Nothing when it is wrong, which has been reported. An in-line constraint cannot be void: what would it
// replace the base's value by?
std::optional<ValueType> check_cell_type(const ast::CellType& type, bool may_be_void, Context& context) {
  Diagnostics& diagnostics = context.diagnostics;
  const bool is_void = type.kind.text == kVoid;
  const std::optional<CellKind> kind = format::cell_type(type.kind.text);
  if (is_void ? !may_be_void : !kind) {
    const std::vector<std::string_view> names = cell_type_names(may_be_void);
    diagnostics
        .report(DiagnosticCode::bad_choice, type.kind.span, type.kind.text, "type of a value", one_of(names))
        .hint(did_you_mean(type.kind.text, names));
    return std::nullopt;
  }
  if (kind && format::info(*kind).update && context.symbols.standard == Standard::classic)
    diagnostics.report(DiagnosticCode::extension, type.kind.span, noun(*kind))
        .hint("--std=mdl26, the default, has it");
  if (!check_event(type, kind.value_or(CellKind::counter), diagnostics)) return std::nullopt;
  return ValueType{
      !is_void, {"", kind.value_or(CellKind::counter), type.event ? canonical_event(type.event->text) : ""}};
}

// For a key that calls what may be meant to say how it is shown.
void add_key_hint(const ast::Expr& key, Diagnostic& diagnostic) {
  const auto* call = std::get_if<ast::Call>(&key.node);
  const auto* callee = call ? std::get_if<ast::NameUse>(&call->callee->node) : nullptr;
  if (callee == nullptr || find_call(callee->text) != nullptr) return;
  std::vector<std::string_view> names;
  for (const std::string_view name : format::kKeyNames)
    if (format::key_call(name)) names.push_back(name);
  const std::string foreign = foreign_key(callee->text);
  const Suggestion near = foreign.empty() ? did_you_mean(callee->text, names) : Suggestion();
  diagnostic.hint(foreign).hint(near);
  if (foreign.empty() && near.empty())
    diagnostic.hint("a key is shown as itself, or as what it is called here: " + one_of(names));
}

// Whether it changes something, or calls what may.
bool has_effects(const ast::Expr& e) {
  if (std::holds_alternative<ast::Assign>(e.node) || std::holds_alternative<ast::Step>(e.node)) return true;
  if (const auto* call = std::get_if<ast::Call>(&e.node)) {
    const auto* callee = std::get_if<ast::NameUse>(&call->callee->node);
    if (callee == nullptr ||
        (callee->text != "readSymbol" && callee->text != "readAddress" && !is_conversion(callee->text)))
      return true;
  }
  bool any = false;
  ast::each_child(e, [&](const ast::Expr& child) { any = any || has_effects(child); });
  return any;
}

void add_cell(Owner& owner, const std::string& name, format::Cell cell) {
  owner.names.emplace(name, static_cast<uint32_t>(owner.cells.size()));
  cell.name = name;
  owner.cells.push_back(std::move(cell));
  owner.histories.emplace_back();
}

// Warnings that are sound for an owner's value; not while there are errors, whose code was not looked at.
void warn_of_value(const Owner& owner, std::string_view noun, const ast::Name& name,
                   Diagnostics& diagnostics) {
  const CellHistory& value = owner.histories[0];
  if (!value.changed) diagnostics.report(DiagnosticCode::never_changes, name.span, noun, name.text);
  if (value.started.has_value() != value.stopped.has_value())
    diagnostics.report(DiagnosticCode::unbalanced_timer, value.started ? *value.started : *value.stopped,
                       name.text, value.started ? "started and never stopped" : "stopped and never started");
}

// Path and selection, which named and in-line constraints have in common. False if there
// is no such path.
bool check_path(const ast::Constraint& c, Owner& owner, Context& context) {
  if (select_path(owner, c.path, c.is_default)) return true;
  context.diagnostics.report(DiagnosticCode::unknown_path, c.path.span, printable(path_text(c.path)))
      .hint(path_hint(c.path));
  return false;
}

class MetricChecker {
 public:
  MetricChecker(const ast::Metric& metric, Span span, Context& context)
      : metric_(metric),
        context_(context),
        settings_({"metric", metric.name, span}, metric.settings, context.diagnostics) {
    result_.position = context.sources.position(span);
  }

  format::Metric check() {
    fields();
    temporaries();
    constraints();
    base();
    if (!context_.diagnostics.has_errors()) warn_of_temporaries();
    return std::move(result_);
  }

 private:
  struct Temporary {
    const ast::Name* name;
    CellKind kind;  // counter or flag
  };

  void fields() {
    result_.id = metric_.name.text;
    result_.name = settings_.text("name", Need::required);
    result_.units = settings_.text("units", Need::required);
    result_.units_type = settings_.choice("unitsType", format::kUnitsTypes, Need::optional, "unnormalized");
    std::string aggregate = settings_.choice("aggregateOperator", format::kAggregates, Need::required, "sum");
    result_.aggregate = format::aggregate(aggregate).value_or(format::Aggregate::sum);
    result_.style = settings_.choice("style", format::kStyles, Need::required, "EventCounter");
    result_.flavors = settings_.flavors(Need::required);
    result_.mode = settings_.choice("mode", format::kModes, Need::optional, "normal");
    focus();
  }

  void focus() {
    const ast::Setting* setting = settings_.find("focus", Need::optional);
    if (setting == nullptr) return;
    const ast::Literal& value = setting->values[0];
    if (context_.symbols.standard == Standard::classic)
      context_.diagnostics.report(DiagnosticCode::extension, setting->key.span, "a metric's focus")
          .hint("--std=mdl26, the default, has it");
    if (!value.text.starts_with('/'))
      context_.diagnostics.report(DiagnosticCode::bad_value, value.span, "'focus'",
                                  "a focus such as \"/Code/OBJECT/*\"");
    result_.focus = value.text;
  }

  // The metric's own names: itself, its temporaries, its in-line constraints.
  bool claim(const ast::Name& name) {
    auto [first, fresh] = claimed_.emplace(name.text, name.span);
    if (!fresh)
      context_.diagnostics.report(DiagnosticCode::redefinition, name.span, name.text)
          .note(first->second, "the first one is here");
    return fresh;
  }

  void temporaries() {
    claim(metric_.name);
    for (const ast::Name& t : metric_.temporaries)
      if (claim(t)) temporaries_.push_back({&t, CellKind::counter});
    for (const ast::Name& f : metric_.flags) {
      if (context_.symbols.standard == Standard::classic)
        context_.diagnostics.report(DiagnosticCode::extension, f.span, "a flag of a metric")
            .hint("--std=mdl26, the default, has it");
      if (claim(f)) temporaries_.push_back({&f, CellKind::flag});
    }
    used_.resize(temporaries_.size());
  }

  // Behind the value.
  void add_temporaries(Owner& owner) const {
    for (const Temporary& t : temporaries_) add_cell(owner, t.name->text, {"", t.kind});
  }

  void note_temporaries(const Owner& owner) {
    for (size_t i = 0; i < temporaries_.size(); i++)
      if (owner.histories[1 + i].named) used_[i] = true;
  }

  void warn_of_temporaries() {
    for (size_t i = 0; i < temporaries_.size(); i++)
      if (!used_[i])
        context_.diagnostics.report(DiagnosticCode::unused_temporary, temporaries_[i].name->span,
                                    temporaries_[i].name->text);
  }

  void constraints() {
    for (const ast::MetricConstraint& c : metric_.constraints) {
      if (c.definition)
        replacement(*c.definition);
      else
        reference(c.name);
    }
  }

  void reference(const ast::Name& name) {
    std::vector<std::string>& used = result_.constraints;
    if (std::find(used.begin(), used.end(), name.text) != used.end()) {
      context_.diagnostics.report(DiagnosticCode::repeated_item, name.span, name.text);
      return;
    }
    if (!context_.symbols.constraints.contains(name.text)) {
      if (context_.symbols.broken.contains(name.text)) return;
      std::vector<std::string_view> known;
      if (context_.diagnostics.errors() < Diagnostics::kLimit)
        for (const auto& [constraint, span] : context_.symbols.constraints) known.push_back(constraint);
      context_.diagnostics.report(DiagnosticCode::unknown_constraint, name.span, metric_.name.text, name.text)
          .hint(did_you_mean(name.text, known));
      return;
    }
    used.push_back(name.text);
  }

  void replacement(const ast::Constraint& c) {
    if (!claim(c.name)) return;
    Owner owner;
    owner.name = c.name.text;
    bool has_path = check_path(c, owner, context_);
    std::optional<ValueType> type = check_cell_type(c.type, false, context_);
    if (!has_path || !type) return;
    add_cell(owner, c.name.text, type->cell);
    owner.names.emplace(metric_.name.text, 0);
    add_temporaries(owner);

    format::Constraint result;
    result.name = c.name.text;
    result.path = path_parts(c.path);
    result.replaces = true;
    result.position = context_.sources.position(c.name.span);
    result.placement =
        place(c.body, owner, context_.symbols, context_.sources, context_.snippets, context_.diagnostics);
    note_temporaries(owner);
    if (!context_.diagnostics.has_errors()) warn_of_value(owner, "constraint", c.name, context_.diagnostics);
    result.cells = std::move(owner.cells);
    // The temporaries are cells of the metric, which its replacements may use.
    auto temporaries = result.cells.begin() + 1;
    result.cells.erase(temporaries, temporaries + static_cast<ptrdiff_t>(temporaries_.size()));
    result_.replacements.push_back(std::move(result));
  }

  // Distributions are added up; a least or a mean one there is not. Of minima there is the least, and so on.
  void check_aggregate(CellKind kind) {
    const format::Aggregate only = format::aggregate_of(kind);
    if (!format::info(kind).update || result_.aggregate == only) return;
    context_.diagnostics.report(DiagnosticCode::bad_value, metric_.bases[0].type.kind.span,
                                fmt::format("the aggregateOperator of {}", noun(kind)),
                                std::string(format::name(only)));
  }

  // `keyed by`: behind all other cells, which have names in code.
  void keys(const ast::Base& base, const ValueType& type, Owner& owner) {
    if (base.keys.empty()) return;
    Diagnostics& diagnostics = context_.diagnostics;
    const Span span = base.keys[0].span;
    if (context_.symbols.standard == Standard::classic)
      diagnostics.report(DiagnosticCode::extension, span, "'keyed by'")
          .hint("--std=mdl26, the default, has it");
    if (!type.has_cell || !format::key_change(type.cell.kind))
      diagnostics.report(DiagnosticCode::bad_value, span, "'keyed by'",
                         "a base that is a counter, a histogram, a minimum, a maximum or an average");
    if (base.keys.size() > format::kMostKeysOfMetric)
      diagnostics.report(DiagnosticCode::bad_value, base.keys[format::kMostKeysOfMetric].span, "'keyed by'",
                         fmt::format("at most {} expressions", format::kMostKeysOfMetric));
    if (!result_.replacements.empty())
      diagnostics.report(DiagnosticCode::bad_value, span, "'keyed by'",
                         "a metric whose base nothing replaces");
    for (const ast::Expr& key : base.keys)
      if (const NamedKey named = named_key(key); named.value != nullptr && has_effects(*named.value))
        add_key_hint(key, diagnostics.report(DiagnosticCode::bad_value, key.span, "'keyed by'",
                                             "a value: it changes nothing, and calls nothing"));
    owner.keys = &base.keys;
    if (format::key_change(type.cell.kind)) {
      owner.keyed = result_.keyed = type.cell.kind;
      owner.cells[0].kind = CellKind::counter;  // what a hit adds, or observes
    }
    owner.first_key = static_cast<uint32_t>(owner.cells.size());
    const auto hidden = [&](const std::string& name) {
      owner.cells.push_back({name, CellKind::counter, {}});
      owner.histories.emplace_back();
    };
    for (size_t i = 0; i < base.keys.size(); i++) {
      const std::string name = fmt::format("{}.key{}", owner.name, i == 0 ? "" : std::to_string(i + 1));
      result_.keys.push_back({name, named_key(base.keys[i]).name});
      hidden(name);
    }
    result_.key_change = owner.name + std::string(format::kKeyChangeSuffix);
    hidden(result_.key_change);
  }

  void base() {
    if (metric_.bases.empty()) return settings_.missing("base");
    const ast::Base& base = metric_.bases[0];
    if (metric_.bases.size() > 1) settings_.doubled("base", base.span, metric_.bases[1].span);
    std::optional<ValueType> type = check_cell_type(base.type, true, context_);
    if (!type) return;

    Owner owner;
    owner.name = metric_.name.text;
    add_cell(owner, metric_.name.text, type->cell);
    check_aggregate(type->cell.kind);
    if (!type->has_cell) {  // the cell is there, since a request has a value; code cannot reach it
      owner.names.clear();
      owner.void_metric = metric_.name.text;
    }
    add_temporaries(owner);
    keys(base, *type, owner);
    result_.placement =
        place(base.body, owner, context_.symbols, context_.sources, context_.snippets, context_.diagnostics);
    note_temporaries(owner);
    if (type->has_cell && !context_.diagnostics.has_errors())
      warn_of_value(owner, "metric", metric_.name, context_.diagnostics);
    result_.cells = std::move(owner.cells);
  }

  const ast::Metric& metric_;
  Context& context_;
  Settings settings_;
  format::Metric result_;
  std::map<std::string_view, Span> claimed_;
  std::vector<Temporary> temporaries_;
  std::vector<bool> used_;  // of them, in any code
};

}  // namespace

std::vector<std::string_view> cell_type_names(bool may_be_void) {
  std::vector<std::string_view> names;
#define X(id, name, type, size, room, group, clock, update, feature) names.emplace_back(type);
  MDL_CELL_KINDS(X)
#undef X
  std::erase(names, "");
  if (may_be_void) names.insert(names.begin() + 1, kVoid);
  return names;
}

format::Constraint check_constraint(const ast::Constraint& c, Span span, Context& context) {
  format::Constraint result;
  result.name = c.name.text;
  result.path = path_parts(c.path);
  result.is_default = c.is_default;
  result.position = context.sources.position(span);

  Owner owner;
  owner.name = c.name.text;
  bool has_path = check_path(c, owner, context);
  if (c.is_default) return result;
  std::optional<ValueType> type = check_cell_type(c.type, false, context);
  if (!has_path || !type) return result;
  if (type->cell.kind != CellKind::counter) {
    context.diagnostics
        .report(DiagnosticCode::flag_not_counter, c.type.kind.span, c.name.text, noun(type->cell.kind))
        .hint("a timer is a metric's value, or that of a constraint in it: is replace");
    return result;
  }

  add_cell(owner, c.name.text, {"", CellKind::flag});
  owner.has_flag = true;
  owner.counts_calls = c.path.parts[0].text == "Code";
  owner.unconstrained = "in a constraint: it is what the others are constrained by";
  result.placement =
      place(c.body, owner, context.symbols, context.sources, context.snippets, context.diagnostics);
  if (!context.diagnostics.has_errors()) warn_of_value(owner, "constraint", c.name, context.diagnostics);
  result.cells = std::move(owner.cells);
  return result;
}

format::Metric check_metric(const ast::Metric& metric, Span span, Context& context) {
  return MetricChecker(metric, span, context).check();
}

}  // namespace mdl::sema
