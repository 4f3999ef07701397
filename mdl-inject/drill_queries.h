// What the keys of a table on a terminal may ask for, compiled with the queries while programs can be started.
// Nothing of it is measured before.
#pragma once

#include "mdl-inject/options.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

// Before the compilation, behind all else that is asked for.
void ask_for_drills(Options& options);
// Behind it and name_queries(): gives these metrics, the last ones of the plan, their names.
void name_drills(plan::Plan& plan, Options& options);

}  // namespace mdl::inject
