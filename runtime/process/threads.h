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
//
// A thread that is held already (TargetMemory::hold) is taken as it stands, and stands when it is released.
//
// If this process dies at any moment, the kernel detaches all threads and they run on. So no thread is ever
// single-stepped: the kernel would leave its trap flag set, and the next instruction would end the target.
// Ctrl-C, Ctrl-Z and their kind wait while a thread is held.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/kernel/trace.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

class Threads {
 public:
  // Those that run in `memory`.
  Threads(pid_t pid, const TargetMemory& memory) : pid_(pid), memory_(memory) {}
  ~Threads();  // lets every thread go
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

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

  // True when the process executes another program than the one that was opened. Then nothing was set in
  // that.
  bool executed() const;
  Error left_alone() const;  // says so

  std::vector<pid_t> stopped() const;
  bool empty() const { return threads_.empty(); }
  // When stop_all() began to stop them: before, it may have waited.
  std::chrono::steady_clock::time_point stopped_since() const { return stopped_since_; }
  Result<arch::ThreadRegisters> registers(pid_t tid) const;
  Result<void> set_registers(pid_t tid, const arch::ThreadRegisters& registers);
  Result<uint64_t> signal_mask(pid_t tid) const;
  Result<void> set_signal_mask(pid_t tid, uint64_t mask);
  // Lets a thread that stopped for a signal take it, up to its handler's first instruction. False when it has
  // another one then, or has ended.
  bool take_signal(pid_t tid, std::chrono::milliseconds deadline);
  // True when it stopped for a signal, which is delivered when it is let go: it cannot be run.
  bool has_signal(pid_t tid) const;
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
  struct StopSeen {
    pid_t tid;
    int status;  // as of waitpid(2)
  };
  Result<void> seize(pid_t tid, pid_t process);
  Result<void> seize_each(const std::vector<std::pair<pid_t, pid_t>>& all);
  Result<void> check_program();
  bool is_ours(pid_t tid) const;
  bool is_known(pid_t tid) const;
  Result<void> may_set(pid_t tid) const;
  pid_t any_known() const;
  void detach(pid_t tid, int signal);
  void leave(pid_t tid, int signal);
  void release(pid_t tid, std::chrono::steady_clock::time_point until);
  void release_each(std::span<const pid_t> tids);
  void lose(pid_t tid);
  void forget_ended(pid_t tid);
  void reap_ended();
  enum class Waited { stopped, ended, timeout };  // ended: we trace it no longer
  std::optional<Waited> note_event(pid_t tid, pid_t got, int status);
  Waited wait_event(pid_t tid, std::chrono::steady_clock::time_point until, int& status);
  // The same, of a thread that others wait for: release_others_at().
  Waited wait_alone(pid_t tid, std::chrono::steady_clock::time_point until, int& status);
  bool wait_stop(pid_t tid, std::chrono::steady_clock::time_point until);
  std::optional<pid_t> wait_stops(std::vector<pid_t> tids, std::chrono::steady_clock::time_point until);
  void note_stops(std::span<const StopSeen> stops);
  void find_known(std::span<const pid_t> tids);
  void leave_others();
  Result<void> wait_for_vforks(std::chrono::steady_clock::time_point until) const;
  void begin_pause();
  void end_pause();

  pid_t pid_;
  const TargetMemory& memory_;
  bool executed_ = false;
  bool late_ = false;
  bool pausing_ = false;  // from the first thread that is seized to the last that is let go
  sigset_t mask_{};       // before signals were held back
  bool hurried_ = false;
  std::chrono::steady_clock::time_point stopped_since_{};
  std::chrono::milliseconds limit_{};                                  // of stop_all()
  std::optional<std::chrono::steady_clock::time_point> others_until_;  // while they stand
  bool others_went_on_ = false;
  std::chrono::nanoseconds stood_{};  // before others_until_ was set
  pid_t kept_ = 0;                    // is not let go, whatever fails
  std::map<pid_t, Thread> threads_;
  std::set<pid_t> ending_;  // killed in their stops, or running: to be reaped or let go (trace_stop.h)
};

}  // namespace mdl::process
