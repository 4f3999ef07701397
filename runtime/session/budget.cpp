#include "runtime/session/budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/say.h"
#include "runtime/focus/cost.h"
#include "runtime/image/for_people.h"

namespace mdl::inject {
namespace {

struct Costs {
  uint64_t least = UINT64_MAX, most = 0;  // picoseconds
  const focus::BoundPoint* dearest = nullptr;
  size_t above = 0;  // points above the limit
};

Costs costs_of(const plan::Plan& plan, const focus::Binding& binding, double ps_per_cycle, double limit_ns) {
  Costs out;
  for (const focus::BoundPoint& point : binding.points) {
    const uint64_t ps = focus::predicted_ps(plan, point.snippets, ps_per_cycle);
    out.least = std::min(out.least, ps);
    out.above += static_cast<double>(ps) > limit_ns * 1000;
    if (out.dearest && ps <= out.most) continue;
    out.most = ps;
    out.dearest = &point;
  }
  return out;
}

std::string ns_text(uint64_t ps) {
  return fmt::format("{:.{}f}", static_cast<double>(ps) / 1000, ps < 100'000 ? 1 : 0);
}

std::string where(const focus::BoundPoint& point) {
  return fmt::format("{} of /Code/{}/{}", format::info(point.kind).name, point.object->name,
                     point.function->name);
}

}  // namespace

Result<void> check_budget(const plan::Plan& plan, const focus::Binding& binding, double ps_per_cycle,
                          std::optional<double> budget) {
  const double limit = budget.value_or(kWarnAboveNs);
  const Costs costs = costs_of(plan, binding, ps_per_cycle, limit);
  if (costs.above == 0) return {};
  const std::string what = fmt::format(
      "the code at {} is predicted to take {} ns a hit{}", where(*costs.dearest), ns_text(costs.most),
      costs.above > 1 ? fmt::format(", the dearest of {} points", costs.above) : "");
  if (budget)
    return Error{fmt::format("{}: more than the budget of {} ns (--budget; ask for less, or see mdlc --cost)",
                             what, *budget)};
  if (static_cast<double>(costs.most) > kRefuseAboveNs * 1000)
    return Error{fmt::format("{}: more than {} ns need --budget NS", what, kRefuseAboveNs)};
  warn_once("{}; --budget NS refuses what takes more", what);
  return {};
}

void print_cost(std::FILE* out, const plan::Plan& plan, const focus::Binding& binding, double ps_per_cycle) {
  const Costs costs = costs_of(plan, binding, ps_per_cycle, kWarnAboveNs);
  if (!costs.dearest) return;
  say(out, "predicted: {} to {} ns a hit, most at {} (cycles of {}, at {:.2f} GHz here)\n",
      ns_text(costs.least), ns_text(costs.most), image::for_people(where(*costs.dearest)), plan.manifest.cpu,
      1000 / ps_per_cycle);
}

}  // namespace mdl::inject
