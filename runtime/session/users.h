// Whose processes may be measured: `[targets] users` of the policy (docs/plans.md). A process changes its users
// when it likes, and so does each of its threads. So this is asked before anything is put into a process, a child
// or a program, and behind each reading of values: those of a user who is not on the list are not shown.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "runtime/session/options.h"

namespace mdl::inject {

// Each user of each thread: one that was somebody else's, or can become so, is not the user's alone. An error, too,
// where the process cannot be asked any more.
Result<void> check_users(pid_t pid, const SessionOptions& options);

}  // namespace mdl::inject
