// The requests that the keys of the table ask for: what a line's function calls, who calls it, its threads.
#pragma once

#include "base/result.h"
#include "runtime/output/formats.h"
#include "runtime/session/commands.h"
#include "runtime/session/measured.h"
#include "runtime/session/measurement.h"
#include "runtime/session/options.h"

namespace mdl::inject {

// Those that would come; none where all of them are there.
Result<RequestChange> requests_for(const output::Drill& drill, const Measured& measured,
                                   const Measurement& measurement, const SessionOptions& options);

}  // namespace mdl::inject
