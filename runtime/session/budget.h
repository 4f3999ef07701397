// The budget: how long the code of one point may take. The plan predicts the time, so it is known before
// anything is changed.
#pragma once

#include <cstdio>

#include "runtime/focus/request.h"

namespace mdl::inject {

// Without a budget, code above this is warned of: a hit that takes a microsecond makes a function of a
// microsecond twice as long. Code above the second limit stops a program for so long at each hit that it is
// a mistake or an attack, so it needs a budget that allows it.
inline constexpr double kWarnAboveNs = 1000;
inline constexpr double kRefuseAboveNs = 1'000'000;

// An error that names the dearest point, when its code is predicted to take more than `budget` nanoseconds.
// Without a budget there is a warning on standard error above kWarnAboveNs, and the error above kRefuseAboveNs.
Result<void> check_budget(const plan::Plan& plan, const focus::Binding& binding, double ps_per_cycle,
                          std::optional<double> budget);

// --dry-run: what a hit is predicted to take, at the cheapest and the dearest point.
void print_cost(std::FILE* out, const plan::Plan& plan, const focus::Binding& binding, double ps_per_cycle);

}  // namespace mdl::inject
