#include "runtime/focus/bind_alone.h"

#include <fmt/format.h>

#include <algorithm>

#include "format/heap.h"
#include "runtime/focus/bind_keys.h"
#include "runtime/plan/capabilities.h"

namespace mdl::focus {
namespace {

constexpr size_t kMostRequests = 131072;  // besides the children of vectors

template <typename Is>
bool any_use(const plan::Plan& plan, const std::vector<Insertion>& code, Is is) {
  return std::ranges::any_of(code, [&](const Insertion& insertion) {
    return std::ranges::any_of(plan.stencils[insertion.stencil].info.cells, is);
  });
}

bool writes(const plan::Plan& plan, const std::vector<Insertion>& code, std::string_view cell) {
  return any_use(plan, code, [&](const format::CellUse& use) { return use.writes && use.name == cell; });
}

// The cells that a request has, the metric's first. Where other code stands in the place of the base's, the metric's
// own are left out that it does not use: each is room in all blocks.
std::vector<const format::Cell*> cells_for(const format::Metric& metric,
                                           const format::Constraint* replacement, const plan::Plan& plan,
                                           const std::vector<Insertion>& code) {
  std::vector<const format::Cell*> out;
  const bool has_own = replacement != nullptr && !replacement->cells.empty();
  for (const format::Cell& cell : metric.cells)
    if (!has_own || !metric.keys.empty() ||
        any_use(plan, code, [&](const format::CellUse& use) { return use.name == cell.name; }))
      out.push_back(&cell);
  if (has_own)
    for (const format::Cell& cell : replacement->cells) out.push_back(&cell);
  return out;
}

bool has_sites(const format::Metric& metric) {
  return std::ranges::find(metric.keys, format::KeyName::site, &format::MetricKey::name) != metric.keys.end();
}

// Where memory may not be read, what only notes blocks by reading it goes: they have no site then. So does the code at
// the entries that keeps arguments for it.
void leave_unknown(const plan::Plan& plan, Evaluation& code) {
  const auto names = [](const plan::Stencil& stencil, const format::CellUse& use) {
    return std::ranges::any_of(stencil.info.cells, [&](const auto& own) { return own.name == use.name; });
  };
  std::vector<uint32_t> gone;
  for (const Insertion& one : code.insertions)
    if (plan.stencils[one.stencil].info.only_notes &&
        plan::uses(plan.stencils[one.stencil], format::Routine::read))
      gone.push_back(one.stencil);
  const auto keeps_for = [&](const plan::Stencil& stencil) {
    return std::ranges::any_of(stencil.info.cells, [&](const format::CellUse& use) {
      return use.kind == format::CellKind::entries &&
             std::ranges::any_of(gone, [&](uint32_t i) { return names(plan.stencils[i], use); });
    });
  };
  std::erase_if(code.insertions, [&](const Insertion& one) {
    const plan::Stencil& stencil = plan.stencils[one.stencil];
    return std::ranges::find(gone, one.stencil) != gone.end() || keeps_for(stencil);
  });
}

// Of what allocates and releases blocks, a process needs to have malloc and free only. All that it has is seen: where
// code stands in some functions only, a block could go unseen, and its site would be another block's.
Result<void> know_heap(Requests& requests, const Scope& scope, const format::Metric& metric,
                       const ResolvedFocus& focus, Evaluation& code) {
  if (!has_sites(metric)) return {};
  if (!focus.only.empty())
    return Error{
        fmt::format("metric `{}` is by the site of blocks, and cannot be asked for at {}: it would miss "
                    "blocks that come and go elsewhere",
                    metric.id, focus.text)};
  const auto has = [](const auto& names, std::string_view name) {
    return std::ranges::find(names, name) != std::end(names);
  };
  std::erase_if(code.missing, [&](const std::string& name) {
    return !has(format::kHeap, name) &&
           (has(format::kAllocators, name) || has(format::kFillers, name) || has(format::kReleases, name));
  });
  if (!requests.admit_reads(scope.owner)) leave_unknown(scope.plan, code);
  return {};
}

// Other threads' values of code that is there already.
void bind_thread(Requests& requests, const ResolvedFocus& focus, uint32_t first) {
  Binding& binding = requests.draft().binding();
  const uint32_t request = requests.draft().next();
  BoundRequest bound = binding.requests[first];
  bound.focus = focus.text, bound.thread = focus.thread;
  binding.requests.push_back(std::move(bound));
  requests.draft().share_code(first, request);
}

}  // namespace

Result<void> bind_alone(Requests& requests, const WantedMetric& wanted, const ResolvedFocus& focus,
                        size_t foci) {
  const format::Metric& metric = *wanted.metric;
  Draft& draft = requests.draft();
  if (!requests.is_new(metric, focus)) return {};
  if (foci > kMostRequests || draft.next() - requests.children() >= kMostRequests)
    return Error{fmt::format(
        "these are more than {} requests, {} of them for metric `{}`; ask for fewer metrics, or by a "
        "narrower pattern, such as /Code/app/get*; a query with `by function` has room for all, and a line "
        "for each that is called",
        kMostRequests, foci, metric.id)};
  if (metric.cells.empty())
    return Error{fmt::format("metric `{}` has no value", metric.id), Status::plan_rejected};
  const auto same = requests.laid().find(metric.id + "@" + focus.code_text);
  const bool keyed = !metric.keys.empty();  // its table is of one request
  if (keyed)
    if (auto room = room_for_keys(draft.binding()); !room) return room;
  if (same != requests.laid().end() && !keyed)
    return bind_thread(requests, focus, same->second), Result<void>();

  auto selections = select(metric, focus, requests.constraints());
  if (!selections) return requests.leave_out(wanted, selections.error());
  const Selection& replacement = selections->replacement;
  const bool replaced = replacement.constraint != nullptr;
  Scope scope = requests.scope(replacement.resource, fmt::format("metric `{}`", metric.id));
  scope.only = focus.only;
  auto base = evaluate(scope, replaced ? replacement.constraint->placement : metric.placement);
  if (!base) return base.error();
  if (auto known = know_heap(requests, scope, metric, focus, *base); !known)
    return requests.leave_out(wanted, known.error());
  if (wanted.whole && !base->missing.empty() && !requests.may_come(wanted))
    return requests.lacks(metric, base->missing);
  // One of several is told with what else has no such points: a library may be all data.
  const bool is_told = foci > 1 && base->missing.empty();
  if (base->insertions.empty() && !base->idle() && !is_told && !requests.may_come(wanted))
    return requests.leave_out(wanted, requests.nothing(wanted, base->missing));
  // The same for each focus; what stands in its place is another for each.
  if (!replaced && base->insertions.size() > kMostSnippets / foci) return too_much();
  if (auto known = requests.admit(base->insertions, scope.owner); !known)
    return requests.leave_out(wanted, known.error());
  for (const format::MetricKey& key : metric.keys) {
    const bool is_descriptor = format::is_descriptor(key.name);
    if (!is_descriptor && key.name != format::KeyName::str) continue;
    auto known = is_descriptor ? requests.admit_links(scope.owner) : requests.admit_reads(scope.owner);
    if (!known) return requests.leave_out(wanted, known.error());
  }

  const uint32_t request = draft.next();
  BoundRequest bound{metric.id, focus.text, &metric, 0, std::move(base->missing)};
  bound.idle = base->idle();
  std::vector<CellId> guards;
  for (const Selection& selection : selections->constraints)
    if (auto laid = requests.constrain(selection, bound, request, guards); !laid) return laid;
  Cells cells;
  const auto defined = cells_for(metric, replacement.constraint, scope.plan, base->insertions);
  const std::string suffix = focus.text.empty() ? "" : "@" + focus.text;
  for (const format::Cell* c : defined) cells.emplace_back(c->name, draft.cell(*c, c->name + suffix));
  // Code that replaces the base counts in its own cell, unless it names the metric's.
  bound.value = cells[0].second;
  if (replaced && !writes(scope.plan, base->insertions, metric.cells[0].name)) {
    if (const auto& own = replacement.constraint->cells; !own.empty())
      bound.value = cells[cells.size() - own.size()].second;
    else if (!base->idle())
      return Error{fmt::format("a replacement in metric `{}` has no value", metric.id),
                   Status::plan_rejected};
  }
  bound.thread = focus.thread;
  bound.keyed = keyed;
  const CellId value = bound.value;
  draft.binding().requests.push_back(std::move(bound));
  requests.laid().emplace(metric.id + "@" + focus.code_text, request);
  for (size_t i = 0; i < defined.size(); ++i)
    if (format::is_raised(defined[i]->kind))
      draft.balance(base->insertions, *defined[i], cells[i].second, request);
  const auto caller = std::ranges::find(metric.keys, format::KeyName::caller, &format::MetricKey::name);
  const auto elsewhere = [](const Insertion& one) {
    return one.kind != format::PointKind::entry && one.kind != format::PointKind::return_;
  };
  const bool reads_return_address = caller != metric.keys.end() || has_sites(metric);
  if (reads_return_address && std::ranges::any_of(base->insertions, [&](const Insertion& one) {
        return elsewhere(one) && writes(scope.plan, {one}, metric.key_change);
      }))
    return Error{fmt::format("metric `{}` asks for the caller, or for sites, where the caller is not known",
                             metric.id),
                 Status::plan_rejected};
  if (!keyed) return requests.lay(base->insertions, scope.owner, cells, guards, Draft::kNoInstance, request);
  const size_t instance = draft.new_instance();
  if (auto laid = requests.lay(base->insertions, scope.owner, cells, guards, instance, request); !laid)
    return laid;
  const auto cell = [&](std::string_view name) {
    return std::find_if(cells.begin(), cells.end(), [&](const auto& one) { return one.first == name; })
        ->second;
  };
  const bool by_thread = focus.thread != kAllThreads || (metric.keyed == format::CellKind::counter &&
                                                         metric.aggregate != format::Aggregate::sum);
  const CellId keys = draft.cell({metric.id, format::CellKind::keys}, metric.id + ".keys" + suffix);
  std::vector<KeyTable>& tables = draft.binding().key_tables;
  KeyTable& table = tables.emplace_back(KeyTable{.request = request,
                                                 .of = {},
                                                 .change = cell(metric.key_change),
                                                 .keys = keys,
                                                 .base = value,
                                                 .by_thread = by_thread,
                                                 .adds = true,
                                                 .kind = metric.keyed});
  for (const format::MetricKey& key : metric.keys) table.names.push_back(key.name);
  if (caller != metric.keys.end()) table.caller = cell(caller->cell);
  for (const size_t i : format::order_of_keys(table.names))
    table.of.push_back(table.names[i] == format::KeyName::caller ? *table.caller : cell(metric.keys[i].cell));
  draft.change_keys(instance, static_cast<uint32_t>(tables.size() - 1));
  return {};
}

}  // namespace mdl::focus
