// What is taken from the worker, so that code which reads an enemy's bytes can do nothing for him when it fails.
#pragma once

#include <sys/types.h>

namespace mdl::kernel {

// Takes from this process, for good: its user and groups (as root: an id that nobody has), its capabilities, new
// privileges by execve, all files but the open ones (an empty root, where that may be made), the network and what other
// namespaces hold (where these may be made), core dumps, and all system calls but those that work on memory, on open
// files, and on itself (seccomp(2); confine.cpp has the list, docs/security.md says why each is there). False where the
// filter cannot be set.
bool confine_worker();

// Whether an id is of those that nobody has but workers of root.
bool is_workers_user(uid_t id);

}  // namespace mdl::kernel
