#include "runtime/session/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/say.h"

namespace mdl::inject {

void Reach::add(const plan::Plan& plan, const patch::Coverage& coverage) {
  for (const patch::FunctionPlan& f : coverage.functions) {
    std::set<uint32_t> taken;
    for (const patch::Window& window : f.sites.windows)
      for (const patch::Site& site : window.sites) taken.insert(site.point);
    for (uint32_t point : taken) {
      for (const focus::BoundSnippet& snippet : f.points[point].snippets) {
        const auto& uses = plan.stencils[snippet.stencil].info.cells;
        for (size_t i = 0; i < uses.size(); i++)
          written_[snippet.cells[i]] = written_[snippet.cells[i]] || uses[i].writes;
        for (const focus::TrackedCells& track : snippet.tracks) written_[track.span] = true;
        for (uint32_t request : snippet.requests)
          guards_[request].insert(guards_[request].end(), snippet.guards.begin(), snippet.guards.end());
      }
    }
  }
}

std::vector<bool> Reach::hollow(const focus::Binding& binding) const {
  std::vector<bool> out;
  for (size_t i = 0; i < binding.requests.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    bool hollow = !request.idle && !written_[request.value];
    for (focus::CellId guard : guards_[i]) hollow = hollow || (!request.idle && !written_[guard]);
    if (request.of != focus::BoundRequest::kNone) hollow = hollow || out[request.of];
    out.push_back(hollow);
  }
  return out;
}

void Found::add(const focus::Binding& binding, const Reach& reach) {
  const std::vector<bool> hollow = reach.hollow(binding);
  for (size_t i = 0; i < hollow.size(); i++) {
    const focus::BoundRequest& request = binding.requests[i];
    if (request.of != focus::BoundRequest::kNone) continue;
    std::string name = focus::request_text(request.metric, request.focus);
    if (!hollow[i]) reached_.insert(name);
    const std::string missing =
        request.missing.empty() ? "" : fmt::format(" (it looks for {})", fmt::join(request.missing, ", "));
    if (missing_.emplace(name, missing).second) order_.push_back(std::move(name));
  }
  for (size_t i = 0; i < binding.absent.size(); i++)
    if (binding.absent[i].empty())
      present_.insert(i);
    else
      absent_.emplace(i, binding.absent[i]);
}

bool Found::say_never_came() const {
  bool any = order_.empty();
  for (const std::string& name : order_) {
    if (reached_.contains(name)) continue;
    any = true;
    say(stderr, "mdl-inject: {} was awaited, and nothing came that it could count{}\n", name,
        missing_.at(name));
  }
  for (const auto& [index, why] : absent_) {
    if (present_.contains(index)) continue;
    any = true;
    say(stderr, "mdl-inject: in no program: {}\n", why);
  }
  if (order_.empty() && absent_.empty())
    say(stderr, "mdl-inject: no program had anything that was asked for\n");
  return any;
}

// Requests that cannot be measured: each, or, where there are many, how many for which reason.
void say_hollow(const focus::Binding& binding, const patch::Coverage& coverage,
                const std::vector<bool>& hollow, bool verbose) {
  constexpr size_t kFew = 3;
  std::vector<size_t> refused, without;
  for (size_t i = 0; i < hollow.size(); i++)
    if (hollow[i]) (coverage.refused_of[i] != 0 ? refused : without).push_back(i);
  const size_t count = refused.size() + without.size();
  if (verbose || count <= kFew) {
    for (size_t i = 0; i < hollow.size(); i++)
      if (hollow[i])
        say(stderr, "warning: {}@{} cannot be measured: {}\n", binding.requests[i].metric,
            binding.requests[i].focus,
            coverage.refused_of[i] != 0
                ? "its points are refused"
                : "the functions have no such points (one that never returns has no returns)");
    return;
  }
  std::vector<std::string> reasons;
  if (!refused.empty()) reasons.push_back(fmt::format("of {} the points are refused", refused.size()));
  if (!without.empty())
    reasons.push_back(
        fmt::format("{} have no such points (what never returns has no returns)", without.size()));
  say(stderr, "warning: {} of {} lines cannot be measured: {} (--verbose names them)\n", count, hollow.size(),
      fmt::format("{}", fmt::join(reasons, "; ")));
}

Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const SessionOptions& options) {
  Reach reach(binding);
  reach.add(plan, coverage);
  const std::vector<bool> hollow = reach.hollow(binding);
  const auto count = static_cast<size_t>(std::count(hollow.begin(), hollow.end(), true));
  std::string example = coverage.refused.empty()
                            ? ": the functions have no such points (one that never returns has no returns)"
                            : fmt::format(": {} in {}: {}", coverage.refused[0].function->name,
                                          coverage.refused[0].object->name, coverage.refused[0].reason);
  if (count == hollow.size() && !options.may_come_later())
    return Error{fmt::format(
        "nothing that was asked for can be measured{} (mdl-inject --dry-run lists every refused point)",
        example)};
  if (options.strict && !coverage.refused.empty())
    return Error{fmt::format("{} points are refused{} (--strict; mdl-inject --dry-run lists them)",
                             coverage.refused.size(), example)};
  if (!options.may_come_later()) say_hollow(binding, coverage, hollow, options.verbose);
  return {};
}

}  // namespace mdl::inject
