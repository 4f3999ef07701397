// Several plans as one, for a session that measures the requests of others, too (session/guests.h).
//
// Each part keeps its metrics, constraints and lists: it is bound by itself (focus/bind_joined.h), so names of one mean
// nothing in another. Only its stencils stand among those of all.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/plan/plan.h"

namespace mdl::plan {

// The plan with ids of metrics that end in the tag: they are unlike those of all other parts, and have no `@`.
void tag_metrics(Plan& plan, const std::string& tag);
// Whether a metric of this id is one of a guest's part.
bool has_metric(const Part& part, std::string_view id);

// What parts may not have in which they would change what the session's own plan means: an error.
Result<void> may_join(const Plan& own, const Plan& guest);

// Where the stencils of one that comes have their place among all, which they keep (Part::first_stencil): what stands in
// the process is known by it.
uint32_t place_for(const Plan& own, std::span<const Part> guests, const Plan& comes);

// `own` outlives it.
Plan join(const Plan& own, std::span<const Part> guests);

}  // namespace mdl::plan
