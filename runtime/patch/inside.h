// Which threads are inside code of a session, and how they come out of it.
//
// A thread leaves a trampoline within nanoseconds, but in a busy program some thread is inside one at nearly
// every stop. So those that are inside run on for a moment while all others stand, again and again: each that
// has come out stays out, because it stands then. Trampolines take no locks, so nobody inside waits for one
// that stands, except in a function of the application that code calls, or in a signal handler.
#pragma once

#include <chrono>
#include <vector>

#include "base/result.h"
#include "runtime/image/unwind.h"
#include "runtime/process/paused_memory.h"
#include "runtime/process/threads.h"

namespace mdl::patch {

// Those of the stopped threads that execute in one of these ranges, or will come back there; all whose stacks
// could not be looked at, or not in time.
std::vector<pid_t> threads_inside(const process::Threads& threads, std::vector<pid_t> which,
                                  const std::vector<image::Range>& code, pid_t pid,
                                  process::PausedMemory& now, const image::Unwinder& unwinder);

// All threads are stopped. True when none is inside any more, and all are stopped; false when some stays
// there for `patience`, or the process has stood for as long as it may: then not all are stopped, nor after an
// error.
Result<bool> drain(process::Threads& threads, const std::vector<image::Range>& code, pid_t pid,
                   process::PausedMemory& now, const image::Unwinder& unwinder,
                   std::chrono::milliseconds patience);

}  // namespace mdl::patch
