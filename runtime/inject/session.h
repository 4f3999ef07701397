// A measurement from the attach to the end: the steps between, in order.
#pragma once

#include "runtime/inject/options.h"

namespace mdl::inject {

// Returns the exit status.
int measure(const Options& options);

}  // namespace mdl::inject
