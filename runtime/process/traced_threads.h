// Threads of a process that we trace with ptrace: which they are, what each of them did last, and what may be set in them.
//
// A thread's id is all that ptrace(2) is told, and an id may come to mean another program between any two
// calls: a thread that executes a program gets the id of its process's first thread and ends all others, and
// the new program may have more rights than the one that was opened (a set-user-ID program keeps them under a
// tracer that has CAP_SYS_PTRACE). So registers and signal masks are set in one place, may_set(), and only in
// a thread
// - that runs in the memory that was opened (target_memory.h), as was found out after it had been seized. Its id
//   is given to nobody else from then on, and the kernel tells us of each execve (PTRACE_O_TRACEEXEC, set by the
//   seizing itself);
// - that is in a ptrace stop now, and not in the one behind an execve. Such a stop lasts until we end it;
// - whose id nobody can take over meanwhile: before anything is set in the first thread of a process, all
//   others of it that we trace have stopped. One that we do not trace takes the id with it, and ptrace finds
//   nobody of ours.
// A program that is not the one that was opened is let go as it is. A thread that got the id just before it was
// seized is not even stopped, since a stop may interrupt its call; as detaching needs a stop, it is traced until
// it has one of its own, or until this process ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/pause.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

class TracedThreads {
 public:
  // Those that run in `memory`.
  TracedThreads(pid_t pid, const TargetMemory& memory) : pid_(pid), memory_(memory) {}
  TracedThreads(const TracedThreads&) = delete;
  TracedThreads& operator=(const TracedThreads&) = delete;

  // True when the process executes another program than the one that was opened. Then nothing was set in
  // that.
  bool executed() const;
  Error left_alone() const;  // says so

  std::vector<pid_t> stopped() const;
  bool empty() const { return threads_.empty(); }
  Result<arch::ThreadRegisters> registers(pid_t tid) const;
  Result<void> set_registers(pid_t tid, const arch::ThreadRegisters& registers);
  Result<uint64_t> signal_mask(pid_t tid) const;
  Result<void> set_signal_mask(pid_t tid, uint64_t mask);
  // True when it stopped for a signal, which is delivered when it is let go: it cannot be run.
  bool has_signal(pid_t tid) const;

 protected:
  using Clock = std::chrono::steady_clock;
  struct Thread {
    pid_t process = 0;  // of which it was found to be a thread
    bool stopped = false;
    bool known = false;       // it runs in our memory
    int signal = 0;           // to deliver when it goes on: the one that it stopped for
    bool stop_again = false;  // a SIGSTOP came while it ran for us
    // As long as it stands nobody else changes them.
    std::optional<arch::ThreadRegisters> registers{};
    __ptrace_syscall_info call{};
  };
  enum class Waited { stopped, ended, timeout };  // ended: we trace it no longer
  ~TracedThreads() = default;

  Result<void> seize(pid_t tid, pid_t process);
  Result<void> seize_each(const std::vector<std::pair<pid_t, pid_t>>& all);
  void leave_others();
  bool is_ours(pid_t tid) const;
  Result<void> may_set(pid_t tid) const;
  void detach(pid_t tid, int signal);
  void leave(pid_t tid, int signal);
  void forget_ended(pid_t tid);
  void reap_ended();
  std::optional<Waited> note_event(pid_t tid, pid_t got, int status);
  Waited wait_event(pid_t tid, Clock::time_point until, int& status);
  bool wait_stop(pid_t tid, Clock::time_point until);
  std::optional<pid_t> wait_stops(std::vector<pid_t> tids, Clock::time_point until);

  pid_t pid_;
  const TargetMemory& memory_;
  bool executed_ = false;
  Pause pause_;
  std::map<pid_t, Thread> threads_;
  std::set<pid_t> ending_;  // killed in their stops, or running: to be reaped or let go (trace_stop.h)

 private:
  struct StopSeen {
    pid_t tid;
    int status;  // as of waitpid(2)
  };
  Result<void> check_program();
  bool is_known(pid_t tid) const;
  pid_t any_known() const;
  void find_known(std::span<const pid_t> tids);
  void lose(pid_t tid);
  void note_stops(std::span<const StopSeen> stops);
};

}  // namespace mdl::process
