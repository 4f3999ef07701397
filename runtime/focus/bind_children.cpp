#include "runtime/focus/bind_children.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace mdl::focus {
namespace {

// The resource by which the foci differ; null when it is none or not one alone.
const Resource* varying(const ResolvedFocus& focus) {
  const Resource* found = nullptr;
  for (const Resource& resource : focus.resources) {
    if (!resource.fitted) continue;
    if (found) return nullptr;
    found = &resource;
  }
  return found;
}

// True when these are the foci of one pattern, in the hierarchy of code.
bool may_vary_together(const std::vector<ResolvedFocus>& foci) {
  return !foci.empty() && foci[0].thread == kAllThreads &&
         std::all_of(foci.begin(), foci.end(), [](const ResolvedFocus& focus) {
           const Resource* resource = varying(focus);
           return resource && resource->path[0] == "Code";
         });
}

// True when each focus selects the same constraints, whose own code asks for no other, and no replacement.
bool select_alike(const Requests& requests, const format::Metric& metric,
                  const std::vector<ResolvedFocus>& foci, const Selections& first) {
  if (first.replacement.constraint) return false;
  for (const Selection& selection : first.constraints)
    if (has_constrained_code(selection.constraint->placement)) return false;
  return std::all_of(foci.begin(), foci.end(), [&](const ResolvedFocus& focus) {
    auto same = select(metric, focus, requests.constraints());
    return same && !same->replacement.constraint &&
           std::equal(same->constraints.begin(), same->constraints.end(), first.constraints.begin(),
                      first.constraints.end(),
                      [](const Selection& a, const Selection& b) { return a.constraint == b.constraint; });
  });
}

// How often a function's frames start a timer or raise a flag, and stop or lower it.
struct Sides {
  int entries = 0, returns = 0;
};
using Frames = std::unordered_map<const image::Function*, Sides>;

Frames frames_of(const std::vector<Insertion>& code) {
  Frames out;
  for (const Insertion& insertion : code) {
    Sides& sides = out[insertion.at.function];
    ++(insertion.kind == format::PointKind::entry ? sides.entries : sides.returns);
  }
  return out;
}

bool has_both(const Frames& frames, const image::Function* function) {
  const auto found = frames.find(function);
  return found != frames.end() && found->second.entries == 1 && found->second.returns == 1;
}

// The foci for which the timer runs while their flag is up and not longer: each function that raises the flag
// starts the timer, too. The others are taken out of `foci` and returned.
Result<std::vector<ResolvedFocus>> take_others(Requests& requests, const Selection& like,
                                               const std::vector<Insertion>& base,
                                               std::vector<ResolvedFocus>& foci) {
  const Frames timed = frames_of(base);
  std::vector<ResolvedFocus> others, kept;
  for (ResolvedFocus& focus : foci) {
    auto code =
        evaluate(requests.scope(varying(focus), fmt::format("constraint `{}`", like.constraint->name)),
                 like.constraint->placement);
    if (!code) return code.error();
    const Frames raised = frames_of(code->insertions);
    const bool same = !raised.empty() && std::all_of(raised.begin(), raised.end(), [&](const auto& function) {
      return has_both(raised, function.first) && has_both(timed, function.first);
    });
    (same ? kept : others).push_back(std::move(focus));
  }
  foci = std::move(kept);
  return others;
}

// The children: a flag each, as alone, and a span instead of a value.
Result<void> lay_children(Requests& requests, const format::Metric& metric, const Selection& like,
                          const std::vector<ResolvedFocus>& foci, uint32_t vector) {
  Draft& draft = requests.draft();
  Binding& binding = draft.binding();
  for (const ResolvedFocus& focus : foci) {
    if (!requests.is_new(metric, focus)) continue;
    auto index = requests.instance({like.order, like.constraint, varying(focus)}, {}, draft.next());
    if (!index) return index.error();
    const CellId span =
        draft.cell({"", format::CellKind::span_, metric.cells[0].event}, metric.id + "@" + focus.text);
    BoundRequest child{metric.id, focus.text, &metric, span, draft.instance(*index).missing};
    child.of = vector;
    child.idle = draft.instance(*index).idle;
    binding.requests.push_back(std::move(child));
    binding.requests[vector].children++;
    requests.children()++;
    draft.track(*index, {draft.instance(*index).cells[0], span, binding.requests[vector].value});
  }
  return {};
}

}  // namespace

Result<std::vector<ResolvedFocus>> bind_children(Requests& requests, const WantedMetric& wanted,
                                                 std::vector<ResolvedFocus> foci) {
  const format::Metric& metric = *wanted.metric;
  if (!metric.additive || !may_vary_together(foci)) return foci;
  auto selections = select(metric, foci[0], requests.constraints());
  if (!selections || !select_alike(requests, metric, foci, *selections)) return foci;
  const Scope scope = requests.scope(nullptr, fmt::format("metric `{}`", metric.id));
  auto base = evaluate(scope, metric.placement);
  if (!base || base->insertions.empty() || !requests.admit(base->insertions, scope.owner)) return foci;
  const bool timer = format::is_timer(metric.cells[0].kind);
  std::vector<ResolvedFocus> others;
  if (timer) {
    // Under another flag the timer would run on when that one is lowered.
    if (selections->constraints.size() != 1) return foci;
    auto taken = take_others(requests, selections->constraints[0], base->insertions, foci);
    if (!taken) return taken.error();
    others = std::move(*taken);
    if (foci.empty()) return others;
    selections = select(metric, foci[0], requests.constraints());
    if (!selections) return selections.error();
  }

  Draft& draft = requests.draft();
  const uint32_t request = draft.next();
  const Cells cells = requests.cells_of(metric, wanted.focus.text);
  const CellId value = cells[0].second;
  draft.binding().requests.push_back(
      {metric.id, wanted.focus.text, &metric, value, std::move(base->missing)});
  std::vector<CellId> guards;
  for (const Selection& selection : selections->constraints) {
    auto laid = selection.resource == varying(foci[0])
                    ? lay_children(requests, metric, selection, foci, request)
                    : requests.constrain(selection, draft.binding().requests[request], request, guards);
    if (!laid) return laid.error();
  }
  if (draft.binding().requests[request].children == 0) {
    draft.binding().requests.pop_back();
    return others;
  }
  if (timer) draft.balance(base->insertions, metric.cells[0], value, request);
  requests.balance_flags(metric, cells, base->insertions, request);
  auto laid = requests.lay(base->insertions, scope.owner, cells, guards, Draft::kNoInstance, request);
  if (!laid) return laid.error();
  return others;
}

}  // namespace mdl::focus
