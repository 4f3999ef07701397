#include "runtime/focus/requests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "runtime/focus/hints.h"
#include "runtime/image/symbols.h"
#include "runtime/plan/capabilities.h"

namespace mdl::focus {
namespace {

// How the 8 aligned bytes that a variable lies in are shifted so that it is left, with its sign.
Result<plan::SymbolValue> value_of(const image::Image& image, const format::SymbolUse& symbol) {
  if (symbol.kind == format::SymbolKind::function) {
    auto address = image::find_callee(image, symbol.name);
    if (!address) return address.error();
    return plan::SymbolValue{*address};
  }
  auto variable = image::find_variable(image, symbol.name);
  if (!variable) return variable.error();
  const uint64_t behind = variable->address % 8 + variable->size;
  return plan::SymbolValue{variable->address & ~uint64_t{7}, static_cast<uint8_t>(64 - 8 * behind),
                           static_cast<uint8_t>(64 - 8 * variable->size)};
}

}  // namespace

Requests::Requests(const plan::Plan& plan, const Names& names, const BindOptions& options,
                   image::Codes* codes)
    : plan_(plan),
      names_(names),
      codes_(codes),
      starts_(options.starts),
      flavor_(flavor_of(options)),
      allow_calls_(options.allow_calls),
      allow_reads_(options.allow_reads),
      await_(options.may_come()),
      nothing_is_right_(options.elsewhere),
      denied_(options.denied),
      denied_links_(options.denied_links),
      draft_(plan) {
  for (const format::Constraint& constraint : plan.manifest.constraints)
    constraints_[constraint.name] = &constraint;
}

Scope Requests::scope(const Resource* selected, std::string owner) {
  return {.plan = plan_,
          .names = names_,
          .flavor = flavor_,
          .selected = selected,
          .owner = std::move(owner),
          .codes = codes_,
          .starts = starts_,
          .steps = &steps_};
}

Result<void> Requests::admit_reads(const std::string& owner) const {
  if (!allow_reads_)
    return Error{
        fmt::format("{} reads memory of the application at addresses that its code computes: allow that with "
                    "--allow-reads",
                    owner)};
  return admit(format::Routine::read, owner);
}

Result<void> Requests::admit_links(const std::string& owner) const {
  if (denied_links_.empty()) return {};
  return Error{
      fmt::format("{} cannot be measured in process {}: {}; `fd(VALUE)` in the place of `file`, `socket` or "
                  "`descriptor` asks nothing there, and may name another file that had the number",
                  owner, names_.image().pid, denied_links_)};
}

Result<void> Requests::admit(format::Routine routine, const std::string& owner) const {
  const auto found = denied_.find(routine);
  if (found == denied_.end()) return {};
  return Error{
      fmt::format("{} cannot be measured in process {}: {}", owner, names_.image().pid, found->second)};
}

Result<void> Requests::admit(const std::vector<Insertion>& code, const std::string& owner) {
  for (const Insertion& insertion : code) {
    const plan::Stencil& stencil = plan_.stencils[insertion.stencil];
    const format::StencilInfo& info = stencil.info;
    if (plan::uses(stencil, format::Routine::read))
      if (auto known = admit_reads(owner); !known) return known;
    if (!allow_calls_ && plan::uses(stencil, format::Routine::call))
      return Error{
          fmt::format("{} calls functions of the application, which may change what it does: allow that with "
                      "--allow-calls",
                      owner)};
    for (format::Routine routine : info.routines)
      if (auto known = admit(routine, owner); !known) return known;
    auto& symbols = draft_.binding().symbols;
    if (info.symbols.empty() || symbols.contains(insertion.stencil)) continue;
    std::vector<plan::SymbolValue> values;
    for (const format::SymbolUse& symbol : info.symbols) {
      auto value = value_of(names_.image(), symbol);
      if (!value) return Error{fmt::format("{}: {}", owner, value.error().text)};
      values.push_back(*value);
    }
    symbols.emplace(insertion.stencil, std::move(values));
  }
  return {};
}

Result<void> Requests::lay(const std::vector<Insertion>& code, const std::string& owner, const Cells& cells,
                           const std::vector<CellId>& guards, size_t instance,
                           std::optional<uint32_t> request) {
  if (auto admitted = admit(code, owner); !admitted) return admitted;
  return draft_.lay(code, cells, guards, instance, request);
}

bool Requests::is_new(const format::Metric& metric, const ResolvedFocus& focus) {
  return bound_.insert(metric.id + "@" + focus.text).second;
}

Result<size_t> Requests::instance(const Selection& selection, const std::vector<CellId>& guards,
                                  uint32_t request) {
  const format::Constraint& constraint = *selection.constraint;
  std::string key = fmt::format("{}@{}", constraint.name, selection.resource->identity());
  if (has_constrained_code(constraint.placement)) key += fmt::format("|{}", fmt::join(guards, ","));
  if (const auto known = instance_of_.find(key); known != instance_of_.end()) {
    draft_.share(known->second, request);
    return known->second;
  }
  if (constraint.cells.empty())
    return Error{fmt::format("constraint `{}` has no flag", constraint.name), Status::plan_rejected};
  const Scope how = scope(selection.resource, fmt::format("constraint `{}`", constraint.name));
  auto code = evaluate(how, constraint.placement);
  if (!code) return code.error();

  const size_t index = draft_.new_instance();
  instance_of_.emplace(std::move(key), index);
  Cells cells;
  for (const format::Cell& c : constraint.cells) {
    const CellId id = draft_.cell(c, fmt::format("{}@{}", c.name, selection.resource->text));
    draft_.instance(index).cells.push_back(id);
    cells.emplace_back(c.name, id);
  }
  draft_.instance(index).missing = std::move(code->missing);
  draft_.instance(index).idle = code->idle();
  if (auto laid = lay(code->insertions, how.owner, cells, guards, index, request); !laid) return laid.error();
  for (size_t i = 0; i < constraint.cells.size(); ++i)
    if (i == 0 || format::is_timer(constraint.cells[i].kind))
      for (const size_t at : draft_.balance(code->insertions, constraint.cells[i], cells[i].second, request))
        draft_.instance(index).balances.push_back(at);
  return index;
}

Result<void> Requests::constrain(const Selection& selection, BoundRequest& bound, uint32_t request,
                                 std::vector<CellId>& guards) {
  auto index = instance(selection, guards, request);
  if (!index) return index.error();
  const Instance& selected = draft_.instance(*index);
  guards.push_back(selected.cells[0]);
  bound.missing.insert(bound.missing.end(), selected.missing.begin(), selected.missing.end());
  bound.idle = bound.idle || selected.idle;
  return {};
}

Cells Requests::cells_of(const format::Metric& metric, const std::string& focus) {
  Cells cells;
  for (const format::Cell& cell : metric.cells)
    cells.emplace_back(cell.name, draft_.cell(cell, cell.name + "@" + focus));
  return cells;
}

void Requests::balance_flags(const format::Metric& metric, const Cells& cells,
                             const std::vector<Insertion>& code, uint32_t request) {
  for (size_t i = 0; i < metric.cells.size(); ++i)
    if (metric.cells[i].kind == format::CellKind::flag)
      draft_.balance(code, metric.cells[i], cells[i].second, request);
}

Result<void> Requests::leave_out(const WantedMetric& wanted, const Error& why) {
  if (wanted.named) return why;
  if (!left_out_) left_out_ = why;
  draft_.binding().left_out.try_emplace(wanted.metric->id, why.text);
  return {};
}

namespace {

// What names no flavors belongs to all.
bool belongs_to(const std::vector<std::string>& flavors, const std::string& flavor) {
  return flavors.empty() || std::ranges::find(flavors, flavor) != flavors.end();
}

// Lists that the statements name, and that have nothing for the flavor: mdlc leaves them empty when it is told which
// one is wanted.
void find_empty_lists(const format::Manifest& manifest, const std::string& flavor, const format::Expr& expr,
                      std::set<std::string>& out) {
  if (expr.kind == format::ExprKind::list)
    for (const format::ResourceList& list : manifest.lists)
      if (list.name == expr.text && (list.items.empty() || !belongs_to(list.flavors, flavor)))
        out.insert(list.name);
  for (const format::Expr& operand : expr.operands) find_empty_lists(manifest, flavor, operand, out);
}
void find_empty_lists(const format::Manifest& manifest, const std::string& flavor,
                      const std::vector<format::Placement>& statements, std::set<std::string>& out) {
  for (const format::Placement& statement : statements) {
    find_empty_lists(manifest, flavor, statement.expr, out);
    find_empty_lists(manifest, flavor, statement.body, out);
  }
}

}  // namespace

Error Requests::nothing(const WantedMetric& wanted, const std::vector<std::string>& missing) const {
  const std::string start =
      fmt::format("metric `{}` has nothing to count in process {}", wanted.metric->id, names_.image().pid);
  if (missing.empty()) {
    const auto& objects = names_.image().objects;
    const bool has_go =
        std::any_of(objects.begin(), objects.end(), [](const image::Object& object) { return object.is_go; });
    std::set<std::string> empty;
    find_empty_lists(plan_.manifest, flavor_, wanted.metric->placement, empty);
    if (!empty.empty())
      return {fmt::format("{}: {} {} nothing for the flavor `{}` (--flavor)", start, fmt::join(empty, ", "),
                          empty.size() == 1 ? "has" : "have", flavor_)};
    return {start + ": no function is left to instrument" +
            (has_go ? " (functions of Go code cannot be: its stacks move)" : "")};
  }
  // Finding out takes up to seconds: of many that are left out nobody reads more than the first one.
  const bool is_read = wanted.named || (!left_out_ && !nothing_is_right_);
  const bool there = is_there(names_, missing[0]);
  return {fmt::format("{}: it looks for {}, which {}{}", start, fmt::join(missing, ", "),
                      there ? "cannot be measured" : "the process does not have",
                      is_read && !there ? hint_for_missing(names_, missing[0]) : "")};
}

Error Requests::lacks(const format::Metric& metric, const std::vector<std::string>& missing) const {
  if (is_there(names_, missing[0]))
    return {fmt::format("`{}` cannot be measured in process {}: {}", metric.id, names_.image().pid,
                        fmt::join(missing, ", "))};
  std::string hint = hint_for_missing(names_, missing[0]);
  if (hint.empty()) hint = "; what a compiler has put into its callers is no function any more";
  return {fmt::format("`{}` cannot be measured: process {} has no {}{}", metric.id, names_.image().pid,
                      fmt::join(missing, ", no "), hint)};
}

}  // namespace mdl::focus
