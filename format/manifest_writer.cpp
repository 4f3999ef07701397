// Manifest to JSON. Every key is always written, in the order of the structures, so that
// equal manifests give equal bytes; what an expression's or a placement's kind has no use
// for is left out.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "format/manifest_tables.h"

namespace mdl::format {
namespace {

using OrderedJson = nlohmann::ordered_json;

template <typename Item, typename Function>
OrderedJson array(const std::vector<Item>& items, Function function) {
  OrderedJson result = OrderedJson::array();
  for (const Item& item : items) result.push_back(function(item));
  return result;
}

OrderedJson json(const Position& position) {
  return OrderedJson{position.file, position.line, position.column};
}

OrderedJson json(const Expr& expr) {
  const ExprShape& has = shape(expr.kind);
  OrderedJson result = {{"kind", has.name}};
  if (has.text) result["text"] = expr.text;
  if (has.number) result["number"] = expr.number;
  if (has.operands) result["operands"] = array(expr.operands, [](const Expr& e) { return json(e); });
  result["position"] = json(expr.position);
  return result;
}

OrderedJson json(const Placement& placement) {
  OrderedJson result = {{"kind", kPlacementKinds[static_cast<size_t>(placement.kind)]}};
  if (placement.kind == PlacementKind::foreach_) result["variable"] = placement.variable;
  if (placement.kind != PlacementKind::block) result["expr"] = json(placement.expr);
  if (placement.kind == PlacementKind::insert) {
    result["order"] = kOrders[static_cast<size_t>(placement.order)];
    result["when"] = kWhens[static_cast<size_t>(placement.when)];
    result["constrained"] = placement.constrained;
    result["stencil"] = placement.stencil;
  } else {
    result["body"] = array(placement.body, [](const Placement& p) { return json(p); });
  }
  result["position"] = json(placement.position);
  return result;
}

OrderedJson placements(const std::vector<Placement>& list) {
  return array(list, [](const Placement& placement) { return json(placement); });
}

OrderedJson cells(const std::vector<Cell>& list) {
  return array(list, [](const Cell& cell) {
    OrderedJson result = {{"name", cell.name}, {"kind", info(cell.kind).name}};
    if (!cell.event.empty()) result["event"] = cell.event;
    return result;
  });
}

OrderedJson json(const ResourceList& list) {
  return {{"name", list.name},       {"type", list.type},       {"items", list.items},
          {"flavors", list.flavors}, {"library", list.library}, {"position", json(list.position)}};
}

OrderedJson json(const Constraint& constraint) {
  return {{"name", constraint.name},
          {"path", constraint.path},
          {"default", constraint.is_default},
          {"replaces", constraint.replaces},
          {"cells", cells(constraint.cells)},
          {"placement", placements(constraint.placement)},
          {"key_cells", cells(constraint.key_cells)},
          {"key_placement", placements(constraint.key_placement)},
          {"not_keyed", constraint.not_keyed},
          {"position", json(constraint.position)}};
}

OrderedJson json(const Metric& metric) {
  OrderedJson out = {
      {"id", metric.id},
      {"name", metric.name},
      {"units", metric.units},
      {"units_type", metric.units_type},
      {"style", metric.style},
      {"mode", metric.mode},
      {"aggregate", name(metric.aggregate)},
      {"flavors", metric.flavors},
      {"constraints", metric.constraints},
      {"replacements", array(metric.replacements, [](const Constraint& c) { return json(c); })},
      {"cells", cells(metric.cells)},
      {"placement", placements(metric.placement)},
      {"additive", metric.additive},
      {"position", json(metric.position)}};
  if (!metric.focus.empty()) out["focus"] = metric.focus;
  if (!metric.keys.empty()) {
    out["keys"] = array(metric.keys, [](const MetricKey& key) {
      return OrderedJson{{"cell", key.cell}, {"name", kKeyNames[static_cast<size_t>(key.name)]}};
    });
    out["key_change"] = metric.key_change;
    if (metric.keyed != CellKind::counter) out["keyed"] = info(metric.keyed).name;
  }
  return out;
}

OrderedJson json(const Exclude& exclude) {
  return {{"pattern", exclude.pattern}, {"regex", exclude.regex}, {"no_case", exclude.no_case}};
}

OrderedJson json(const ProcessDefinition& process) {
  return {{"name", process.name},
          {"command", process.command},
          {"directory", process.directory},
          {"flavor", process.flavor},
          {"position", json(process.position)}};
}

OrderedJson json(const CellUse& use) {
  OrderedJson out = {
      {"name", use.name}, {"kind", info(use.kind).name}, {"reads", use.reads}, {"writes", use.writes}};
  if (is_timer(use.kind)) out["starts"] = use.starts;
  return out;
}

OrderedJson json(const SymbolUse& symbol) {
  return {{"name", symbol.name}, {"kind", kSymbolKinds[static_cast<size_t>(symbol.kind)]}};
}

OrderedJson json(const StencilInfo& stencil) {
  OrderedJson out = {
      {"name", stencil.name},
      {"point", info(stencil.point).name},
      {"cells", array(stencil.cells, [](const CellUse& use) { return json(use); })},
      {"clobbers", stencil.clobbers},
      {"writes_flags", stencil.writes_flags},
      {"uses_result", stencil.uses_result},
      {"constants", array(stencil.constants, [](const Expr& e) { return json(e); })},
      {"symbols", array(stencil.symbols, [](const SymbolUse& s) { return json(s); })},
      {"routines", array(stencil.routines, [](Routine r) { return OrderedJson(info(r).name); })},
      {"instructions", stencil.instructions},
      {"cycles", stencil.cycles},
      {"routine_ns", stencil.routine_ns},
      {"position", json(stencil.position)}};
  if (stencil.only_notes) out["only_notes"] = true;
  return out;
}

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  OrderedJson result = {
      {"format", kFormat},
      {"min_reader", kMinReader},
      {"features", manifest.features},
      {"target", manifest.target},
      {"cpu", manifest.cpu},
      {"lists", array(manifest.lists, [](const ResourceList& l) { return json(l); })},
      {"constraints", array(manifest.constraints, [](const Constraint& c) { return json(c); })},
      {"metrics", array(manifest.metrics, [](const Metric& m) { return json(m); })},
      {"statements", placements(manifest.statements)},
      {"statement_cells", cells(manifest.statement_cells)},
      {"excludes", array(manifest.excludes, [](const Exclude& e) { return json(e); })},
      {"processes", array(manifest.processes, [](const ProcessDefinition& p) { return json(p); })},
      {"tunables", array(manifest.tunables,
                         [](const Tunable& t) {
                           return OrderedJson{{"name", t.name}, {"value", t.value}};
                         })},
      {"stencils", array(manifest.stencils, [](const StencilInfo& s) { return json(s); })},
  };
  if (const Edition& edition = manifest.edition; !edition.name.empty())
    result["edition"] = {
        {"name", edition.name}, {"version", edition.version}, {"not_after", edition.not_after}};
  // The compiler admits UTF-8 only; `replace` is for callers that build manifests by hand.
  return write_json(result);
}

std::string write_expr(const Expr& expr) {
  return write_json(json(expr));
}

}  // namespace mdl::format
