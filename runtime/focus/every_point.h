// Code at $points, and $cost: what can only be known when all other code is laid.
//
// Code at $points runs at each point that has code of other requests, `append`ed behind all of it or
// `prepend`ed before it, and in front of other such code laid before. `$cost` is what one hit of all the code
// of the point that it stands at is predicted to take, its own included, in picoseconds (cost.h).
#pragma once

#include <span>

#include "runtime/focus/request.h"

namespace mdl::focus {

struct EverySnippet {
  BoundSnippet snippet;
  format::Order order = format::Order::append;
};

// The snippets of Binding::points get those of `every`, and their constants that are $cost a value. An error
// when there is such code and no point to put it at.
Result<void> lay_everywhere(const plan::Plan& plan, std::span<const EverySnippet> every, double ps_per_cycle,
                            Binding& binding);

}  // namespace mdl::focus
