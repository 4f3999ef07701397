// Handles of processes (pidfd_open(2)), and signals.
//
// A handle means the process that had the id when it was opened, and nobody after it. It is readable when
// that has ended (poll(2)). A broker hands handles out; signals it sends only to threads that stand in a
// stop of its own, and to programs that it has started.
#pragma once

#include <sys/types.h>

#include <optional>

namespace mdl::kernel {

int open_handle(pid_t pid);
bool send_signal(int handle, int signal);
// How it ended, as wait(2) gives it; nothing when the kernel does not tell (Linux before 6.15), or it has
// not.
std::optional<int> end_of(int handle);

// By ids, which must be its own still: of a child that nobody has waited for, or a tracee that stands.
bool signal_thread(pid_t process, pid_t tid, int signal);
bool kill_process(pid_t pid);

}  // namespace mdl::kernel
