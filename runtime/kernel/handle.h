// Handles of processes (pidfd_open(2)), and signals.
//
// A handle means the process that had the id when it was opened, and nobody after it. It is readable when
// that has ended (poll(2)). A broker hands handles out, through which somebody without rights can send
// nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace mdl::kernel {

int open_handle(pid_t pid);
// How it ended, as wait(2) gives it; nothing when the kernel does not tell (Linux before 6.15), or it has
// not.
std::optional<int> end_of(int handle);

// Only where there is no broker (yet): a worker cannot send anything.
bool send_signal(int handle, int signal);

// Sends SIGSTOP to a thread that stands in a stop of ours.
bool stop_again(pid_t process, pid_t tid);

// The id of the process that makes the calls: its threads trace. The caller's own where there is no broker.
pid_t own_id();

// It, and the thread that calls this, go before all others, until as many have said not any more. False where that may
// not be.
bool hurry(bool on);

}  // namespace mdl::kernel
