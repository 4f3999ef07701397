// The predicted time of a point's code: what its stencils take (Stencil::cost: the plan's prediction, or more
// where the decoded code shows more), and the way to the code and back.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/focus/request.h"

namespace mdl::focus {

// The time of one hit, in picoseconds, when every guard lets through. Not in it: registers that must be
// saved, and what requests with `*` do besides (tracks, keys).
uint64_t predicted_ps(const plan::Plan& plan, std::span<const BoundSnippet> snippets, double ps_per_cycle);

}  // namespace mdl::focus
