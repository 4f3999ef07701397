// `mdl-inject top`: calls, self time and latency of the busiest functions of a process, which are found by sampling.
//
// What is measured is compiled while programs can be started, and the functions are found behind that, without
// privileges: so the queries are about every function that they are asked for, and the busiest are their foci.
#pragma once

#include "base/result.h"
#include "mdl-inject/audit.h"
#include "mdl-inject/options.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

// Before the compilation: the queries.
void ask_for_busiest(Options& options);
// Behind it: takes out what a killed mdl-inject left in the process, samples it, and names the metrics and foci in the
// options. Says what was left out.
Result<void> choose_busiest(Options& options, plan::Plan& plan, Audit& audit);

}  // namespace mdl::inject
