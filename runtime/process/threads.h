// Stopping a process's threads with ptrace, and letting them go again as they were.
//
// A thread is seized (PTRACE_SEIZE sends no signal) and interrupted; the list of threads
// is read again until no new one appears, because a thread that is not stopped yet can
// start another. A thread that sleeps in a system call stays asleep as far as the program
// can tell: the kernel restarts the call when it is let go, and for the calls that it would
// fail with EINTR instead (signal(7)), hide_interruption() makes it restart them too.
// A signal that arrived meanwhile is delivered when the thread is let go.
//
// A signal that the program ignores (SIGCHLD, mostly) is thrown away by the kernel when it is sent, but not
// while the thread that it is sent to is traced: then it is queued and wakes some thread, and if that one is
// not traced, nobody mends its call. So the first thread, to which most are sent, is seized last and let go
// first, and a thread that waits for a vforked child, which would stay seized for as long as that lives, is
// waited for before anything is touched.
//
// traced_threads.h says which threads these are, and what may be set in them.
//
// A thread that is held already (TargetMemory::hold) is taken as it stands, and stands when it is released.
//
// If this process dies at any moment, the kernel detaches all threads and they run on. So no thread is ever
// single-stepped: the kernel would leave its trap flag set, and the next instruction would end the target.
// Ctrl-C, Ctrl-Z and their kind wait while a thread is held.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>

#include "base/result.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/traced_threads.h"

namespace mdl::process {

class Threads : public TracedThreads {
 public:
  using TracedThreads::TracedThreads;
  ~Threads();  // lets every thread go

  // Stops every thread of the process, or lets all go again and says which one would not stop. Nobody stands
  // for longer than `limit` meanwhile; before anything is stopped, the parent of a vfork is waited for, until
  // `deadline`.
  Result<void> stop_all(std::chrono::milliseconds deadline, std::chrono::milliseconds limit);
  // The last stop_all() failed because its limit was over.
  bool is_late() const { return late_; }
  Result<void> stop_one(pid_t tid, std::chrono::milliseconds deadline);
  // Lets every thread go, with the registers that were set and the signals that are due.
  void release_all();
  void release(pid_t tid);
  // When stop_all() began to stop them: before, it may have waited.
  Clock::time_point stopped_since() const { return stopped_since_; }

  // Lets a thread that stopped for a signal take it, up to its handler's first instruction. False when it has
  // another one then, or has ended.
  bool take_signal(pid_t tid, std::chrono::milliseconds deadline);
  // Lets one stopped thread run to its next system-call entry or exit (PTRACE_SYSCALL), or, from such a stop,
  // to the place where signals are handled, without an instruction in between. A signal stops it where it is.
  enum class Step { to_system_call, to_signals };
  enum class Stop { step, signal, exited, timeout };
  Stop run(pid_t tid, Step step, std::chrono::milliseconds deadline);
  // Behind Step::to_system_call: the call that it enters or leaves (PTRACE_GET_SYSCALL_INFO, Linux 5.3).
  const __ptrace_syscall_info& system_call(pid_t tid) const { return threads_.at(tid).call; }
  // From now on, while run() waits for one thread, the others stand for as long as the last stop_all() may take, and no
  // longer.
  void limit_others() { others_until_ = stopped_since_ + limit_, others_went_on_ = false, stood_ = {}; }
  // Whether they have been released for that since.
  bool others_went_on() const { return others_went_on_; }
  // Stops them again while `tid` stands, and for as long. False: they run.
  bool stop_others(pid_t tid);
  // How long they have stood, in all.
  std::chrono::nanoseconds stood() const;

 private:
  void release(pid_t tid, Clock::time_point until);
  void release_each(std::span<const pid_t> tids);
  // wait_event() of a thread that others wait for: limit_others().
  Waited wait_alone(pid_t tid, Clock::time_point until, int& status);
  Result<void> wait_for_vforks(Clock::time_point until) const;

  bool late_ = false;
  Clock::time_point stopped_since_{};
  std::chrono::milliseconds limit_{};              // of stop_all()
  std::optional<Clock::time_point> others_until_;  // while they stand
  bool others_went_on_ = false;
  std::chrono::nanoseconds stood_{};  // before others_until_ was set
  pid_t kept_ = 0;                    // is not let go, whatever fails
};

}  // namespace mdl::process
