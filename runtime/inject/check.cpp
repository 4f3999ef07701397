#include "runtime/inject/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace mdl::inject {
namespace {

// A request is hollow when its value, or a flag that it waits for, is written nowhere, though it should be.
std::vector<bool> hollow_requests(const plan::Plan& plan, const focus::Binding& binding,
                                  const patch::Coverage& coverage) {
  std::vector<bool> written(binding.cells.size());
  std::vector<std::vector<focus::CellId>> guards(binding.requests.size());
  for (const patch::FunctionPlan& f : coverage.functions) {
    std::set<uint32_t> taken;
    for (const patch::Window& window : f.sites.windows)
      for (const patch::Site& site : window.sites) taken.insert(site.point);
    for (uint32_t point : taken) {
      for (const focus::BoundSnippet& snippet : f.points[point].snippets) {
        const auto& uses = plan.stencils[snippet.stencil].info.cells;
        for (size_t i = 0; i < uses.size(); i++)
          written[snippet.cells[i]] = written[snippet.cells[i]] || uses[i].writes;
        for (const focus::Track& track : snippet.tracks) written[track.span] = true;
        for (uint32_t request : snippet.requests)
          guards[request].insert(guards[request].end(), snippet.guards.begin(), snippet.guards.end());
      }
    }
  }
  std::vector<bool> out;
  for (size_t i = 0; i < binding.requests.size(); i++) {
    bool hollow = !binding.requests[i].idle && !written[binding.requests[i].value];
    for (focus::CellId guard : guards[i]) hollow = hollow || (!binding.requests[i].idle && !written[guard]);
    if (binding.requests[i].of != focus::BoundRequest::kNone) hollow = hollow || out[binding.requests[i].of];
    out.push_back(hollow);
  }
  return out;
}

}  // namespace

Result<void> check_coverage(const plan::Plan& plan, const focus::Binding& binding,
                            const patch::Coverage& coverage, const Options& options) {
  std::vector<bool> hollow = hollow_requests(plan, binding, coverage);
  size_t count = static_cast<size_t>(std::count(hollow.begin(), hollow.end(), true));
  std::string example = coverage.refused.empty()
                            ? ": the functions have no such points (one that never returns has no returns)"
                            : fmt::format(": {} in {}: {}", coverage.refused[0].function->name,
                                          coverage.refused[0].object->name, coverage.refused[0].reason);
  if (count == hollow.size() && !options.await)
    return Error{fmt::format(
        "nothing that was asked for can be measured{} (mdl-inject --dry-run lists every refused point)",
        example)};
  if (options.strict && !coverage.refused.empty())
    return Error{fmt::format("{} points are refused{} (--strict; mdl-inject --dry-run lists them)",
                             coverage.refused.size(), example)};
  for (size_t i = 0; i < hollow.size() && count <= 20 && !options.await; i++)
    if (hollow[i])
      fmt::print(stderr, "warning: {}@{} cannot be measured: {}\n", binding.requests[i].metric,
                 binding.requests[i].focus,
                 coverage.refused_of[i] != 0
                     ? "its points are refused"
                     : "the functions have no such points (one that never returns has no returns)");
  return {};
}

}  // namespace mdl::inject
