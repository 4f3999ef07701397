// -p, --every, --all-children, --cgroup, --container: the processes that are meant.
#pragma once

#include "base/result.h"
#include "mdl-inject/options.h"

namespace mdl::inject {

// Fills in the targets, the first one's id and those of the others. A name is that of the program's file, of the first
// word of the command line, or what a process calls itself. Errors: none has it, with the near names; several have,
// with a list to choose from.
Result<void> find_processes(Options& options);

}  // namespace mdl::inject
