// Queries and sources of the command line to a plan, by the mdlc beside this program, or on PATH. Nothing of the
// compiler is linked here: what mdlc writes is a plan like any other, and verified as such.
#pragma once

#include "base/result.h"
#include "mdl-inject/options.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

// The plan of the options: the file that they name, or what their queries and sources are compiled to; then it names
// what they are called in messages, and which metrics are asked for besides those of -m. mdlc's messages go to standard
// error; an error of it has status 1.
Result<plan::Plan> read_or_compile(Options& options);

// --show-mdl. Returns the exit status.
int show_mdl(const Options& options);

}  // namespace mdl::inject
