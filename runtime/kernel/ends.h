// Takes the ends of traced threads while their tracer waits in PTRACE_SEIZE.
//
// A thread that executes a program ends all others of its process and waits for that. A traced thread has ended only
// when its tracer has taken its end. PTRACE_SEIZE of any thread of that process waits for the execve
// (cred_guard_mutex, ptrace_attach() and de_thread() in the kernel). So a tracer that has seized one thread and
// seizes the next one may wait for itself, and the target waits with it. waitpid(2) takes an end for any thread of
// the tracer's process: here one does that which seizes nobody.
//
// Only ends of threads that are not the first of their process are taken: no execve waits for the others.
#pragma once

#include <sys/types.h>

namespace mdl::kernel {

// During the life of this, the calling thread seizes.
class Seizing {
 public:
  Seizing();
  ~Seizing();
  Seizing(const Seizing&) = delete;
  Seizing& operator=(const Seizing&) = delete;
};

// From now on, the end of this thread may be waited for; or no longer.
void expect_end(pid_t tid);
void forget_end(pid_t tid);

}  // namespace mdl::kernel
