// Stopping a process's threads with ptrace, and letting them go again as they were.
//
// A thread is seized (PTRACE_SEIZE sends no signal) and interrupted; the list of threads
// is read again until no new one appears, because a thread that is not stopped yet can
// start another. A thread that sleeps in a system call stays asleep as far as the program
// can tell: the kernel restarts the call when it is let go, and for the calls that it would
// fail with EINTR instead (signal(7)), hide_interruption() makes it restart them too.
// A signal that arrived meanwhile is delivered when the thread is let go.
//
// If this process dies at any moment, the kernel detaches all threads and they run on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <map>
#include <vector>

#include "base/result.h"
#include "runtime/arch/arch.h"

namespace mdl::process {

class Threads {
 public:
  explicit Threads(pid_t pid) : pid_(pid) {}
  ~Threads();  // lets every thread go
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Stops every thread of the process, or lets all go again and says which one would not stop.
  Result<void> stop_all(std::chrono::milliseconds deadline);
  Result<void> stop_one(pid_t tid, std::chrono::milliseconds deadline);
  // Lets every thread go, with the registers that were set and the signals that are due.
  void release_all();
  void release(pid_t tid);

  std::vector<pid_t> stopped() const;
  bool empty() const { return threads_.empty(); }
  Result<arch::ThreadRegisters> registers(pid_t tid) const;
  Result<void> set_registers(pid_t tid, const arch::ThreadRegisters& registers);
  // Lets one stopped thread run to its next system-call entry or exit (PTRACE_SYSCALL), or for one
  // instruction. Signals that come meanwhile are kept and delivered when it is let go.
  enum class Step { to_system_call, one_instruction };
  enum class Stop { step, exited, timeout };
  Stop run(pid_t tid, Step step, std::chrono::milliseconds deadline);

 private:
  struct Thread {
    bool stopped = false;
    int signal = 0;               // to deliver when it goes on: the one that it stopped for
    std::vector<siginfo_t> kept;  // signals that run() held back
  };
  Result<void> seize(pid_t tid);
  enum class Waited { stopped, ended, timeout };
  Waited wait_event(pid_t tid, std::chrono::steady_clock::time_point until, int& status);
  bool wait_stop(pid_t tid, std::chrono::steady_clock::time_point until);
  void note_stop(pid_t tid, int status);

  pid_t pid_;
  std::map<pid_t, Thread> threads_;
};

}  // namespace mdl::process
