// The functions that somebody has asked for by name, or nearly so: who asks for many reads the lines, and no notes on each.
#pragma once

#include <vector>

#include "runtime/focus/request.h"

namespace mdl::focus {

// A point of each function that metrics with few lines are about, in the binding's order.
std::vector<const BoundPoint*> points_of_few_lines(const Binding& binding);

}  // namespace mdl::focus
