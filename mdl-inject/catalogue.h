// What can be asked: of any process (the standard metrics), and of one.
#pragma once

#include "mdl-inject/options.h"

namespace mdl::inject {

// Both return the exit status.

// --metrics [PID]: the metrics of the standard plans, or those of them that a process can have.
int print_metrics(const Options& options);

// A process alone: its objects, queries that fit it, and the standard plans that do.
int introduce(const Options& options);

}  // namespace mdl::inject
