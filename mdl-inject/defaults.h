// A plan's own defaults for its use: its tunables and processes (docs/language.md, "Tools"). The command line
// comes first.
#pragma once

#include "base/result.h"
#include "format/manifest.h"
#include "mdl-inject/options.h"

namespace mdl::inject {

// Fills what the command line left open. Errors: a tunable out of its range (the plan is rejected); a program
// that is to be started without a command, by a plan that does not have just one process (usage). Changes to
// the process's directory, if it names one.
Result<void> apply_defaults(const format::Manifest& manifest, Options& options);

}  // namespace mdl::inject
