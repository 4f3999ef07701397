// The ptrace(2) stops of threads that we trace.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "runtime/arch/thread_registers.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

using kernel::is_signal;
using kernel::kExecuted;

// In which ptrace stop the thread is that has this id now; nothing where none of ours has it, or it is not
// stopped.
std::optional<int> stop_code(pid_t tid);

// kernel::next_event(), without waiting.
pid_t wait_now(pid_t tid, int& status);

// Takes note of the end of a traced thread, if that is there: true then. Until its tracer has done that, a
// thread that was killed stays, and its process with it.
bool reap(pid_t tid);
// The same; true also when the thread is not there any more, or has never been traced by us.
bool has_been_reaped(pid_t tid);

// Detaches a stopped thread; false when it was killed in its stop: then it is to be reaped.
bool let_go(pid_t tid, int signal);
// The same for one that nobody else waits for.
void let_go_or_reap(pid_t tid, int signal);

// Ends the tracing of a thread that runs or stands. One that cannot be stopped now is let go once it can be:
// stop_tracing_all() is to be called from time to time.
void stop_tracing(pid_t tid);
void stop_tracing_later(pid_t tid);
// One that was seized by mistake, and never stopped by us: it is let go at its next stop, or when this process ends.
void leave_running(pid_t tid);
bool is_left_running(pid_t tid);
void stop_tracing_all();

// Stops a seized thread in `code`, where it sleeps for moments, with `memory`: true then, with its registers.
// Signals that stop it first are its own, and are handled. It is waited for where it may come back: in a
// signal handler, or wherever it is when it `may_return`. False: it is elsewhere, or has ended; it may run,
// and is traced still.
bool stop_in(pid_t tid, const TargetMemory& memory, std::span<const image::Range> code, bool may_return,
             std::chrono::milliseconds patience, arch::ThreadRegisters& registers);

bool read_registers(pid_t tid, arch::ThreadRegisters& registers);
// Of many at once (kernel/trace.h); of a size of 0 where they cannot be read.
std::vector<arch::ThreadRegisters> read_registers_each(std::span<const pid_t> tids);
bool write_registers(pid_t tid, const arch::ThreadRegisters& registers);
// For a thread in a stop of ours, which runs a program that we may change: it sees no EINTR for the stop.
void hide_interruption(pid_t tid);

}  // namespace mdl::process
