// Queries and sources of the command line to a plan, by the mdlc beside this program, or on PATH. Nothing of the
// compiler is linked here: what mdlc writes is a plan like any other, and verified as such.
#pragma once

#include <string>

#include "base/program_output.h"
#include "base/result.h"
#include "mdl-inject/options.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

// The bytes of the plan to which queries and sources are compiled, from a compiler that runs meanwhile. mdlc's messages go
// to standard error; an error of it has status 1.
Result<RunningProgram> start_compiler(const Options& options);
Result<std::string> compiled(RunningProgram& compiler, const Options& options);
// Names in the options which metrics of that plan are asked for besides those of -m.
Result<void> name_queries(plan::Plan& plan, Options& options);

// --show-mdl. Returns the exit status.
int show_mdl(const Options& options);

}  // namespace mdl::inject
