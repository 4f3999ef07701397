// Which thread is it? A thread pointer is used again when its thread has ended; what belongs to
// one thread (flags, timers, its own values) must not go to the next (architecture, decision 10).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "runtime/focus/request.h"
#include "runtime/process/target_memory.h"

namespace mdl::resident {

// True when something of the binding belongs to single threads: then threads are told apart at each hit,
// for one load and one comparison more. Plain counters do not care who added to them.
bool needs_identity(const plan::Plan& plan, const focus::Binding& binding);

// Where the process's C library keeps the id of a thread, behind its thread pointer: asked of one thread,
// which is stopped for that. 0 when no known place holds it.
Result<uint32_t> find_thread_place(pid_t pid, const process::TargetMemory& memory);

}  // namespace mdl::resident
