#include "runtime/focus/bind_keys.h"

#include <fmt/format.h>

#include <algorithm>

namespace mdl::focus {
namespace {

// The keyed form of the constraint, whose code writes no flag but what to do to which key.
Result<void> lay_keys(Requests& requests, const Selection& selection, const std::vector<CellId>& guards,
                      uint32_t request) {
  const format::Constraint& constraint = *selection.constraint;
  Draft& draft = requests.draft();
  Binding& binding = draft.binding();
  const Scope scope = requests.scope(selection.resource, fmt::format("constraint `{}`", constraint.name));
  auto code = evaluate(scope, constraint.key_placement);
  if (!code) return code.error();
  const size_t index = draft.new_instance();
  const std::string suffix = "@" + selection.resource->text;
  const auto& names = constraint.key_cells;
  const CellId change = draft.cell(names[1], names[1].name + suffix);  // what balances look at comes first
  const CellId key = draft.cell(names[0], names[0].name + suffix);
  const CellId keys = draft.cell({constraint.name, format::CellKind::keys}, constraint.name + suffix);
  draft.instance(index).cells = {change, key, keys};
  const Cells cells = {{names[0].name, key}, {names[1].name, change}};
  if (auto laid = requests.lay(code->insertions, scope.owner, cells, guards, index, request); !laid)
    return laid;
  draft.instance(index).balances = draft.balance(code->insertions, names[1], change, request);
  BoundRequest& bound = binding.requests[request];
  const bool by_thread = bound.thread != kAllThreads || bound.definition->aggregate != format::Aggregate::sum;
  binding.key_tables.push_back({request, {key}, change, keys, bound.value, by_thread});
  draft.change_keys(index, static_cast<uint32_t>(binding.key_tables.size() - 1));
  bound.missing.insert(bound.missing.end(), code->missing.begin(), code->missing.end());
  return {};
}

// Why the request cannot be kept by key; "" when it can.
std::string obstacle(const format::Metric& metric, const Selections& selections) {
  size_t keyed = 0;
  std::string why;
  bool behind = false;
  for (const Selection& selection : selections.constraints) {
    if (behind && has_constrained_code(selection.constraint->placement))
      why = fmt::format("code of constraint `{}` is constrained by its keys", selection.constraint->name);
    if (!selection.resource->every) continue;
    keyed++;
    behind = true;
    const format::Constraint& c = *selection.constraint;
    if (c.key_placement.empty())
      why =
          fmt::format("constraint `{}` is not vectorized: {}", c.name,
                      c.not_keyed.empty() ? "mdlc was told not to (--disable-pass=vectorize)" : c.not_keyed);
  }
  if (!metric.keys.empty())
    why = "it has a value for each of its own keys already";
  else if (!metric.additive)
    why = "its base does more than add, constrained, to its value";
  if (!metric.cells.empty() && format::is_timer(metric.cells[0].kind))
    why = "a timer that runs when a key is lowered would have to be kept for that key";
  if (keyed != 1 || selections.replacement.constraint)
    why = "one resource of it may be `*`, and nothing may replace its base";
  return why;
}

}  // namespace

bool has_keys(const ResolvedFocus& focus) {
  return std::any_of(focus.resources.begin(), focus.resources.end(),
                     [](const Resource& resource) { return resource.every; });
}

Result<void> room_for_keys(const Binding& binding) {
  constexpr size_t kMostTables = 64;  // each reserves address space for all keys that there may be
  if (binding.key_tables.size() < kMostTables) return {};
  return Error{fmt::format("these are more than {} requests for all keys; ask for fewer, or narrower foci",
                           kMostTables)};
}

Result<void> bind_keys(Requests& requests, const WantedMetric& wanted, const ResolvedFocus& focus) {
  const format::Metric& metric = *wanted.metric;
  if (!requests.is_new(metric, focus)) return {};
  auto selections = select(metric, focus, requests.constraints());
  if (!selections) return requests.leave_out(wanted, selections.error());
  if (const std::string why = obstacle(metric, *selections); !why.empty())
    return requests.leave_out(
        wanted, {fmt::format("metric `{}` cannot be asked for at {}: {}; name one resource", metric.id,
                             focus.text, why)});
  Draft& draft = requests.draft();
  if (auto room = room_for_keys(draft.binding()); !room) return room;
  const Scope scope = requests.scope(nullptr, fmt::format("metric `{}`", metric.id));
  auto base = evaluate(scope, metric.placement);
  if (!base) return base.error();
  if (base->insertions.empty() && !base->idle() && !requests.may_come(wanted))
    return requests.leave_out(wanted, requests.nothing(wanted, base->missing));
  if (auto admitted = requests.admit(base->insertions, scope.owner); !admitted)
    return requests.leave_out(wanted, admitted.error());

  const uint32_t request = draft.next();
  const Cells cells = requests.cells_of(metric, focus.text);
  BoundRequest bound{metric.id, focus.text, &metric, cells[0].second, std::move(base->missing)};
  bound.keyed = true;
  bound.idle = base->idle();
  bound.thread = focus.thread;
  draft.binding().requests.push_back(std::move(bound));
  std::vector<CellId> guards;
  for (const Selection& selection : selections->constraints) {
    auto laid = selection.resource->every
                    ? lay_keys(requests, selection, guards, request)
                    : requests.constrain(selection, draft.binding().requests[request], request, guards);
    if (!laid) return laid;
  }
  requests.balance_flags(metric, cells, base->insertions, request);
  return requests.lay(base->insertions, scope.owner, cells, guards, Draft::kNoInstance, request);
}

}  // namespace mdl::focus
