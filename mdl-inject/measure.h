// A measurement from the command line to the exit status: what goes before the insertion, in order.
#pragma once

#include "mdl-inject/options.h"
#include "mdl-inject/policy.h"

namespace mdl::inject {

// Returns the exit status.
int measure(const Options& options, const Policy& policy);

}  // namespace mdl::inject
