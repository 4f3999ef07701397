// Requests with `*` that one base answers, whatever the number of children (docs/language.md, "All children
// at once").
//
// The base is laid once, without the guard of the resource that varies, into a cell of its own; the
// other resources' flags still guard it. Each child has its flag and a span (format/kinds.h): behind every
// piece of code that writes the flag the injector lays what opens and closes the span. So code at the
// base's points does not depend on how many children there are.
//
// This holds for code, where a child is a function or an object, and is active while it is on the stack.
// The other conditions: Metric::additive; no replacement; constraints whose own code is unconditional. A base
// that is a timer answers for the children whose own frames start and stop it, and only when no other flag
// guards it: else the timer may run on while the child's flag changes, and a request of its own would count
// that time, or not, by the order of the two.
#pragma once

#include <vector>

#include "runtime/focus/requests.h"

namespace mdl::focus {

// Returns the foci that must be bound one by one; all, when one base cannot answer.
Result<std::vector<ResolvedFocus>> bind_children(Requests& requests, const WantedMetric& wanted,
                                                 std::vector<ResolvedFocus> foci);

}  // namespace mdl::focus
