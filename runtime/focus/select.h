// Which constraints of a metric stand for the resources of a focus.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/focus/resource.h"

namespace mdl::focus {

// A constraint that a request selects, and the resource it selects it for.
struct Selection {
  size_t order = 0;  // in the metric
  const format::Constraint* constraint = nullptr;
  const Resource* resource = nullptr;
};

struct Selections {
  std::vector<Selection> constraints;  // in the metric's order; default ones, which have no code, left out
  Selection replacement;               // what takes the base's place; no constraint where nothing does
};

using Constraints = std::unordered_map<std::string_view, const format::Constraint*>;  // of a plan, by name

// For each resource the first constraint of the metric that fits, in-line ones before the others. An
// error names the constraint that is missing. The result points into `focus`.
Result<Selections> select(const format::Metric& metric, const ResolvedFocus& focus,
                          const Constraints& constraints);

// Whether code of these statements is `constrained`.
bool has_constrained_code(const std::vector<format::Placement>& statements);

}  // namespace mdl::focus
