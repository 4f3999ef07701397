// Requests with `*` that one base answers, whatever the number of children (language.md, "Vectorization").
//
// The base is laid once, without the guard of the resource that varies, into a cell of its own; the
// other resources' flags still guard it. Each child has its flag and a span (format/kinds.h): behind every
// piece of code that writes the flag the injector lays what opens and closes the span. So code at the
// base's points does not depend on how many children there are.
//
// This holds for code, where a child is a function or an object, and is active while it is on the stack.
// The other conditions: Metric::additive; no replacement; constraints whose own code is unconditional.
#pragma once

#include <vector>

#include "runtime/focus/resource.h"

namespace mdl::focus {

// The resource by which the foci differ; null when it is none or not one alone.
const Resource* varying(const ResolvedFocus& focus);

// True when these are the foci of one pattern, in the hierarchy of code.
bool may_vary_together(const std::vector<ResolvedFocus>& foci);

}  // namespace mdl::focus
