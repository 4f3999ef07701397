// Whether seccomp lets a process do what will be done in it. Filters are read with ptrace and evaluated
// (bpf.h) on the very calls that will be made, before anything is touched: a call that a filter denies may
// kill the process. A filter is never changed.
//
// Filters belong to threads: a process may have threads with none, with different ones, with several each.
// Code that is inserted may run in all of them; a remote call is made by one that may make it.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/arch/system_calls.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

using Filter = std::vector<sock_filter>;

// The rules that hold for one thread.
struct Confinement {
  pid_t thread = 0;
  bool dispatched = false;  // find_self_caller()
  bool strict = false;      // SECCOMP_MODE_STRICT: read, write, exit and sigreturn only
  std::vector<Filter> filters;
  std::string unreadable;  // why the filters could not be read; "" when they could
};

// The first of these threads, stopped by us, whose system calls come back to it as SIGSYS
// (prctl(PR_SET_SYSCALL_USER_DISPATCH); Wine does that): when it says so in its memory, and from all code but
// some of its own. Kernels before 6.4 cannot be asked that.
std::optional<pid_t> find_self_caller(std::span<const pid_t> tids);

// "" when the thread may make the call, else what happens instead: "a seccomp filter kills the process at
// mmap".
std::string why_denied(const Confinement& confinement, const arch::PlannedCall& call);

// The confinement of a thread that is stopped by us.
Confinement read_confinement(pid_t tid);

// All confined threads of a process; each is stopped for a moment. A thread that starts later has the filters
// of the one that starts it.
class Sandbox {
 public:
  static Result<Sandbox> read(pid_t pid, const TargetMemory& memory);
  // `free`: there are threads besides these that nothing confines.
  explicit Sandbox(std::vector<Confinement> threads, bool free = false)
      : threads_(std::move(threads)), free_(free) {}

  // The first call that some thread may not make, with the reason; "" when there is none.
  std::string why_denied(std::span<const arch::PlannedCall> calls) const;
  // The same, when no thread may make all of them.
  std::string why_denied_to_all(std::span<const arch::PlannedCall> calls) const;

 private:
  std::vector<Confinement> threads_;
  bool free_;
};

}  // namespace mdl::process
