#include "runtime/focus/every_point.h"

#include <fmt/format.h>

#include "runtime/focus/cost.h"
#include "runtime/focus/draft.h"

namespace mdl::focus {

Result<void> lay_everywhere(const plan::Plan& plan, std::span<const EverySnippet> every, double ps_per_cycle,
                            Binding& binding) {
  if (!every.empty() && binding.points.empty())
    return Error{
        fmt::format("{} looks at what other requests insert: ask for another one, too",
                    every[0].snippet.requests.empty()
                        ? "code at $points"
                        : fmt::format("metric `{}`", binding.requests[every[0].snippet.requests[0]].metric))};
  if (!every.empty() && binding.points.size() > kMostSnippets / every.size()) return too_much();
  for (BoundPoint& point : binding.points) {
    for (const EverySnippet& one : every)
      point.snippets.insert(
          one.order == format::Order::append ? point.snippets.end() : point.snippets.begin(), one.snippet);
    const auto cost = static_cast<int64_t>(predicted_ps(plan, point.snippets, ps_per_cycle));
    for (BoundSnippet& snippet : point.snippets) {
      const auto& constants = plan.stencils[snippet.stencil].info.constants;
      for (size_t i = 0; i < constants.size() && i < snippet.constants.size(); ++i)
        if (constants[i].kind == format::ExprKind::cost) snippet.constants[i] = cost;
    }
  }
  return {};
}

}  // namespace mdl::focus
