// What an mdl-inject that was killed has left in a process, or what the process has of a parent that we measure: before
// anything is read of it.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "mdl-inject/audit.h"
#include "mdl-inject/options.h"
#include "runtime/process/target_memory.h"

namespace mdl::inject {

// It is taken out, as --remove does it. Where it cannot be, the look that follows (patch::refuse_occupied) says what is
// there.
Result<void> clean(const Options& options, pid_t pid, const process::TargetMemory& memory, Audit& audit);

}  // namespace mdl::inject
