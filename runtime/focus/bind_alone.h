// One metric at one focus, by code of its own.
#pragma once

#include "runtime/focus/requests.h"

namespace mdl::focus {

// `foci`: how many the pattern stands for that the focus belongs to.
Result<void> bind_alone(Requests& requests, const WantedMetric& wanted, const ResolvedFocus& focus,
                        size_t foci);

}  // namespace mdl::focus
