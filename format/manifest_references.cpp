// The rules, in the order they are checked:
// - names of lists, constraints, metrics and stencils are unique, so are an owner's cells;
// - the first cell of a constraint with code is its flag and has its name; the first cell
//   of a metric is its value and has its identifier;
// - a metric's constraints are in the plan;
// - a list named by an expression is in the plan, a variable belongs to an enclosing foreach;
// - a placement's stencil exists, was made for the point that it names, and uses cells of
//   the owner of the placement only (a replacement may use its metric's cells too).
#include "format/manifest_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "format/manifest_tables.h"

namespace mdl::format {
namespace {

using Owned = std::unordered_map<std::string_view, CellKind>;

class Checker {
 public:
  explicit Checker(const Manifest& manifest) : manifest_(manifest) {}

  std::string run() {
    for (const ResourceList& list : manifest_.lists) unique(lists_, list.name, "list");
    for (const StencilInfo& stencil : manifest_.stencils) check(stencil);
    for (const Constraint& constraint : manifest_.constraints) {
      unique(constraints_, constraint.name, "constraint");
      check(constraint, {});
    }
    for (const Metric& metric : manifest_.metrics) check(metric);
    Owned owned;
    add(owned, manifest_.statement_cells, "the statements outside metrics");
    for (const auto& [name, kind] : owned)
      if (kind != CellKind::call) fail("the statements outside metrics have a cell that is not for calls");
    check(manifest_.statements, owned, "the statements outside metrics");
    return error_;
  }

 private:
  using Names = std::unordered_set<std::string_view>;

  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  void unique(Names& names, std::string_view name, std::string_view what) {
    if (!names.insert(name).second) fail(fmt::format("two of its {}s are called \"{}\"", what, name));
  }

  void check(const StencilInfo& stencil) {
    unique(stencils_, stencil.name, "stencil");
    if (stencil.name == kGuardStencil) fail(fmt::format("a stencil is called \"{}\"", stencil.name));
    Names cells;
    for (const CellUse& use : stencil.cells)
      if (!cells.insert(use.name).second)
        fail(fmt::format("stencil \"{}\" names cell \"{}\" twice", stencil.name, use.name));
    Names registers;
    for (const std::string& name : stencil.clobbers)
      if (!registers.insert(name).second)
        fail(fmt::format("stencil \"{}\" clobbers \"{}\" twice", stencil.name, name));
  }

  void add(Owned& owned, const std::vector<Cell>& cells, std::string_view owner) {
    for (const Cell& cell : cells)
      if (!owned.emplace(cell.name, cell.kind).second)
        fail(fmt::format("\"{}\" has two cells called \"{}\"", owner, cell.name));
  }

  void check(const Constraint& constraint, Owned owned) {
    add(owned, constraint.cells, constraint.name);
    bool has_flag = !constraint.cells.empty() && constraint.cells[0].name == constraint.name &&
                    constraint.cells[0].kind == CellKind::flag;
    if (!constraint.is_default && !constraint.replaces && !has_flag)
      fail(fmt::format("constraint \"{}\" has no flag of its name as its first cell", constraint.name));
    check(constraint.placement, owned, fmt::format("constraint \"{}\"", constraint.name));
    Owned keyed;
    add(keyed, constraint.key_cells, constraint.name);
    bool counters = std::all_of(constraint.key_cells.begin(), constraint.key_cells.end(),
                                [](const Cell& cell) { return cell.kind == CellKind::counter; });
    if (!constraint.key_placement.empty() && (constraint.key_cells.size() != 2 || !counters))
      fail(fmt::format("constraint \"{}\" has a keyed form without its two counters", constraint.name));
    check(constraint.key_placement, keyed, fmt::format("constraint \"{}\"", constraint.name));
  }

  void check(const Metric& metric) {
    unique(metrics_, metric.id, "metric");
    for (const std::string& name : metric.constraints)
      if (!constraints_.count(name))
        fail(fmt::format("metric \"{}\" names constraint \"{}\", which is not there", metric.id, name));
    if (metric.cells.empty() || metric.cells[0].name != metric.id)
      fail(fmt::format("metric \"{}\" has no cell of its name as its first", metric.id));
    if (!metric.cells.empty() && info(metric.cells[0].kind).update &&
        metric.aggregate != aggregate_of(metric.cells[0].kind))
      fail(fmt::format("metric \"{}\" is a {}, whose threads are added up and nothing else", metric.id,
                       info(metric.cells[0].kind).name));
    check_keys(metric);
    Owned owned;
    add(owned, metric.cells, metric.id);
    for (const Constraint& replacement : metric.replacements) check(replacement, owned);
    check(metric.placement, owned, fmt::format("metric \"{}\"", metric.id));
  }

  // The value, the keys and what happens to them are counters of the metric, each one of its own.
  void check_keys(const Metric& metric) {
    if (metric.keys.empty()) return;
    std::vector<std::string_view> names = {metric.id, metric.key_change};
    for (const MetricKey& key : metric.keys) names.push_back(key.cell);
    for (const std::string_view name : names) {
      const auto is_it = [&](const Cell& cell) {
        return cell.name == name && cell.kind == CellKind::counter;
      };
      if (std::ranges::count(names, name) != 1 || std::ranges::none_of(metric.cells, is_it))
        fail(fmt::format("metric \"{}\" keeps its value by keys without the counters for them", metric.id));
    }
    if (!key_change(metric.keyed) ||
        (info(metric.keyed).update && metric.aggregate != aggregate_of(metric.keyed)))
      fail(fmt::format("metric \"{}\" keeps by keys what cannot be", metric.id));
    if (metric.additive || !metric.replacements.empty())
      fail(fmt::format("metric \"{}\" keeps its value by keys, and as one value, too", metric.id));
  }

  void check(const std::vector<Placement>& placements, const Owned& owned, const std::string& owner) {
    for (const Placement& placement : placements) {
      if (!error_.empty()) return;
      if (placement.kind != PlacementKind::block) check(placement.expr, owner);
      if (placement.kind == PlacementKind::insert) check_insert(placement, owned, owner);
      if (placement.kind == PlacementKind::foreach_) variables_.push_back(placement.variable);
      check(placement.body, owned, owner);
      if (placement.kind == PlacementKind::foreach_) variables_.pop_back();
    }
  }

  void check_insert(const Placement& placement, const Owned& owned, const std::string& owner) {
    if (placement.stencil >= manifest_.stencils.size())
      return fail(fmt::format("{} places stencil {}, but there are {}", owner, placement.stencil,
                              manifest_.stencils.size()));
    const StencilInfo& stencil = manifest_.stencils[placement.stencil];
    for (const CellUse& use : stencil.cells) {
      auto found = owned.find(use.name);
      if (found == owned.end() || found->second != use.kind)
        return fail(fmt::format("{} places stencil \"{}\", whose {} \"{}\" it does not have", owner,
                                stencil.name, info(use.kind).name, use.name));
    }
    for (const Expr& constant : stencil.constants)
      check(constant, fmt::format("stencil \"{}\"", stencil.name));
    bool is_field = placement.expr.kind == ExprKind::field;
    if ((is_field && placement.expr.text == "entry" && stencil.point != PointKind::entry) ||
        (is_field && placement.expr.text == "return" && stencil.point != PointKind::return_))
      fail(fmt::format("{} places stencil \"{}\", made for {} points, at a field \"{}\"", owner, stencil.name,
                       info(stencil.point).name, placement.expr.text));
  }

  void check(const Expr& expr, const std::string& owner) {
    if (expr.kind == ExprKind::list && !lists_.count(expr.text))
      fail(fmt::format("{} names list \"{}\", which is not there", owner, expr.text));
    if (expr.kind == ExprKind::variable &&
        std::find(variables_.begin(), variables_.end(), expr.text) == variables_.end())
      fail(fmt::format("{} names variable \"{}\" outside its foreach", owner, expr.text));
    for (const Expr& operand : expr.operands) check(operand, owner);
  }

  const Manifest& manifest_;
  std::string error_;
  Names lists_, constraints_, metrics_, stencils_;
  std::vector<std::string_view> variables_;  // of the foreach around
};

}  // namespace

std::string check_references(const Manifest& manifest) {
  return Checker(manifest).run();
}

}  // namespace mdl::format
