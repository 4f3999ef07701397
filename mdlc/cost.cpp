#include "mdlc/cost.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace mdl::mdlc {
namespace {

using Row = std::array<std::string, 7>;

// The metric or constraint that a placement's stencil belongs to, by index of the stencil.
using Owners = std::map<uint32_t, std::string>;
void note(const std::vector<format::Placement>& placements, const std::string& owner, Owners& owners) {
  for (const format::Placement& placement : placements) {
    if (placement.kind == format::PlacementKind::insert) owners.emplace(placement.stencil, owner);
    note(placement.body, owner, owners);
  }
}
Owners owners_of(const format::Manifest& manifest) {
  Owners owners;
  for (const format::Metric& metric : manifest.metrics) {
    note(metric.placement, metric.id, owners);
    for (const format::Constraint& own : metric.replacements) note(own.placement, metric.id, owners);
  }
  for (const format::Constraint& constraint : manifest.constraints)
    note(constraint.placement, constraint.name, owners);
  note(manifest.statements, "(top level)", owners);
  return owners;
}

// The routines that a stencil calls. Their time comes on top of the predicted cycles: a system call, mostly.
std::string routines(const format::StencilInfo& info) {
  std::string text;
  for (format::Routine routine : info.routines)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", format::info(routine).name);
  return text.empty() ? text : fmt::format("{} (~{} ns)", text, info.routine_ns);
}

Row row(const std::string& owner, const format::StencilInfo& info, uint64_t bytes) {
  return {owner,
          std::string(format::info(info.point).name),
          std::to_string(bytes),
          std::to_string(info.instructions),
          fmt::format("{}.{:02}", info.cycles / 100, info.cycles % 100),
          info.clobbers.empty() ? "-" : fmt::format("{}", fmt::join(info.clobbers, " ")),
          routines(info)};
}

}  // namespace

std::string cost_table(const backend::PlanText& plan, const std::map<std::string, uint64_t>& sizes) {
  const Owners owners = owners_of(plan.manifest);
  std::vector<Row> rows = {{"METRIC", "POINT", "BYTES", "INSTRUCTIONS", "CYCLES", "SCRATCH", "ROUTINES"}};
  for (uint32_t i = 0; i < plan.stencils.size(); i++) {
    const auto owner = owners.find(i);
    const auto size = sizes.find(plan.manifest.stencils[i].name);
    rows.push_back(row(owner == owners.end() ? "-" : owner->second, plan.manifest.stencils[i],
                       size == sizes.end() ? 0 : size->second));
  }
  std::array<size_t, std::tuple_size_v<Row>> width{};
  for (const Row& one : rows)
    for (size_t i = 0; i < one.size(); i++) width[i] = std::max(width[i], one[i].size());
  std::string text = fmt::format("{}, {}; cycles of one more execution, without the site's jumps\n",
                                 plan.manifest.target, plan.manifest.cpu);
  for (const Row& one : rows) {
    std::string line;
    for (size_t i = 0; i < one.size(); i++)
      line += i >= 2 && i <= 4 ? fmt::format("{:>{}}  ", one[i], width[i])
                               : fmt::format("{:<{}}  ", one[i], width[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace mdl::mdlc
