#include "runtime/plan/capabilities.h"

#include <algorithm>
#include <set>

namespace mdl::plan {
namespace {

void stencils_of(const std::vector<format::Placement>& code, std::set<uint32_t>& out) {
  for (const format::Placement& one : code) {
    if (one.kind == format::PlacementKind::insert) out.insert(one.stencil);
    stencils_of(one.body, out);
  }
}

using Owners = std::vector<std::pair<std::string, std::set<uint32_t>>>;

void add_owner(Owners& out, const std::string& name,
               std::initializer_list<const std::vector<format::Placement>*> code) {
  std::set<uint32_t> stencils;
  for (const auto* one : code) stencils_of(*one, stencils);
  out.emplace_back(name, std::move(stencils));
}

Owners owners(const format::Manifest& manifest) {
  Owners out;
  for (const format::Metric& metric : manifest.metrics) {
    add_owner(out, metric.id, {&metric.placement});
    for (const format::Constraint& own : metric.replacements)
      add_owner(out, metric.id, {&own.placement, &own.key_placement});
  }
  for (const format::Constraint& one : manifest.constraints)
    add_owner(out, one.name, {&one.placement, &one.key_placement});
  add_owner(out, "code outside of metrics", {&manifest.statements});
  return out;
}

void add(std::vector<std::string>& to, const std::string& name) {
  if (std::ranges::find(to, name) == to.end()) to.push_back(name);
}

}  // namespace

bool uses(const Stencil& stencil, format::Routine routine) {
  return std::ranges::any_of(stencil.holes, [&](const Hole& hole) {
    return hole.kind == HoleKind::routine && hole.index == static_cast<uint32_t>(routine);
  });
}

Capabilities capabilities(const Plan& plan) {
  Capabilities out;
  for (const auto& [owner, stencils] : owners(plan.manifest))
    for (const uint32_t stencil : stencils)
      if (uses(plan.stencils[stencil], format::Routine::read)) add(out.reads, owner);
  for (const format::Metric& metric : plan.manifest.metrics)
    if (std::ranges::find(metric.keys, format::KeyName::str, &format::MetricKey::name) != metric.keys.end())
      add(out.reads, metric.id);
  for (const Stencil& stencil : plan.stencils) {
    const bool calls = uses(stencil, format::Routine::call);
    for (const format::SymbolUse& symbol : stencil.info.symbols) {
      if (symbol.kind == format::SymbolKind::variable) add(out.variables, symbol.name);
      if (symbol.kind == format::SymbolKind::function && calls) add(out.calls, symbol.name);
    }
  }
  for (const format::Constraint& one : plan.manifest.constraints)
    if (!one.key_placement.empty()) add(out.keys, one.name);
  for (const format::ProcessDefinition& process : plan.manifest.processes) add(out.commands, process.command);
  return out;
}

}  // namespace mdl::plan
