#include "runtime/plan/join.h"

#include <algorithm>
#include <utility>

namespace mdl::plan {

void tag_metrics(Plan& plan, const std::string& tag) {
  for (format::Metric& metric : plan.manifest.metrics) {
    if (metric.name.empty()) metric.name = metric.id;
    std::ranges::replace(metric.id, '@', '?');
    metric.id += tag;
  }
}

bool has_metric(const Part& part, std::string_view id) {
  return !part.tag.empty() && id.ends_with(part.tag);
}

Result<void> may_join(const Plan& own, const Plan& guest) {
  if (own.manifest.target != guest.manifest.target)
    return Error{"it is for " + guest.manifest.target, Status::plan_rejected};
  if (!guest.manifest.statements.empty()) return Error{"it has code outside metrics"};
  if (own.manifest.excludes != guest.manifest.excludes)
    return Error{"it leaves out other functions (`exclude`) than the plan that is measured there"};
  return {};
}

uint32_t place_for(const Plan& own, std::span<const Part> guests, const Plan& comes) {
  std::vector<std::pair<size_t, size_t>> taken;
  for (const Part& one : guests)
    taken.emplace_back(one.first_stencil, one.first_stencil + one.plan->stencils.size());
  std::ranges::sort(taken);
  size_t at = own.stencils.size();
  for (const auto& [begin, end] : taken) {
    if (at + comes.stencils.size() <= begin) break;
    at = end;
  }
  return static_cast<uint32_t>(at);
}

Plan join(const Plan& own, std::span<const Part> guests) {
  Plan out = own;
  out.parts = {{.plan = std::shared_ptr<const Plan>(std::shared_ptr<const Plan>(), &own)}};
  for (const Part& guest : guests) {
    out.parts.push_back(guest);
    const size_t end = guest.first_stencil + guest.plan->stencils.size();
    if (out.stencils.size() < end) out.stencils.resize(end);
    for (size_t i = 0; i < guest.plan->stencils.size(); i++) {
      Stencil& stencil = out.stencils[guest.first_stencil + i] = guest.plan->stencils[i];
      stencil.info.name.insert(0, guest.tag + " ");  // it says whose it is (patch/tail_calls.cpp)
    }
  }
  return out;
}

}  // namespace mdl::plan
