#include "runtime/process/threads.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "runtime/process/target.h"

namespace mdl::process {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHurry = -20;  // the nice value of who goes first

void nap(long microseconds) {
  timespec time{0, microseconds * 1000};
  nanosleep(&time, nullptr);
}

// A PTRACE_EVENT_STOP is ours or a group stop and carries nothing; anything else with no event, and no system
// call's, is a signal on its way.
bool is_signal(int status) {
  return status >> 16 == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80);
}

// Like waitpid(), but for a stop at a signal, which is only looked at: the kernel delivers the signal of such
// a stop when the tracer is killed, and forgets one of which the tracer has been told (wait_task_stopped()
// clears the code that ptrace_signal() goes on with).
pid_t wait_now(pid_t tid, int& status) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(tid), &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0)
    return -1;
  if (info.si_pid == 0) return 0;
  status = info.si_status << 8 | 0x7f;  // of a stop, as waitpid() gives it
  if (info.si_code == CLD_TRAPPED && is_signal(status)) return tid;
  return waitpid(tid, &status, __WALL | WNOHANG);
}

}  // namespace

Threads::~Threads() {
  release_all();
  end_pause();
}

// Who presses Ctrl-C while threads are stopped would end us between a thread's stop and its mending. And a
// process that waits for us must not wait for others: on a busy machine we go first then, if we may (a thread
// of Linux has a nice value of its own).
void Threads::begin_pause() {
  if (pausing_) return;
  pausing_ = true;
  errno = 0;
  nice_ = getpriority(PRIO_PROCESS, 0);
  hurried_ = errno == 0 && setpriority(PRIO_PROCESS, 0, kHurry) == 0;
  sigset_t held;
  sigemptyset(&held);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &mask_);
}

void Threads::end_pause() {
  if (!pausing_) return;
  pausing_ = false;
  if (hurried_) setpriority(PRIO_PROCESS, 0, nice_);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

Result<void> Threads::seize(pid_t tid) {
  if (threads_.count(tid)) return {};
  begin_pause();
  for (int attempt = 0;; attempt++) {
    // TRACESYSGOOD tells system-call stops from SIGTRAP; it asks for no stop by itself.
    if (ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACESYSGOOD) == 0) {
      threads_[tid] = {};
      return {};
    }
    if (errno == ESRCH) return {};  // it has ended meanwhile
    if (errno != EPERM)
      return Error{
          fmt::format("cannot attach to thread {} of process {}: {}", tid, pid_, std::strerror(errno))};
    // A thread that is ending is refused like one that may not be traced, and like one that another
    // mdl-inject has traced: when that ends, it gives up the lock before its threads.
    if (!is_alive_thread(tid)) return {};
    if (attempt == 200) return permission_error(tid);
    nap(500);
  }
}

// A stop that interrupted a sleeper is hidden at once, so that whoever lets the thread go, also
// half-way through something that failed, lets it sleep on.
void Threads::note_stop(pid_t tid, int status) {
  Thread& thread = threads_[tid];
  thread.stopped = true;
  if (is_signal(status)) thread.signal = WSTOPSIG(status);
  auto regs = registers(tid);
  if (regs && arch::hide_interruption(*regs)) (void)set_registers(tid, *regs).operator bool();
}

Threads::Waited Threads::wait_event(pid_t tid, Clock::time_point until, int& status) {
  for (int round = 0;; round++) {
    pid_t got = wait_now(tid, status);
    if (got == tid && WIFSTOPPED(status)) return Waited::stopped;
    if (got == tid || (got < 0 && errno == ECHILD)) {
      threads_.erase(tid);
      return Waited::ended;
    }
    if (Clock::now() > until) return Waited::timeout;
    if (round > 20) nap(round > 200 ? 500 : 20);
  }
}

// True when the thread is stopped or gone.
bool Threads::wait_stop(pid_t tid, Clock::time_point until) {
  int status = 0;
  Waited waited = wait_event(tid, until, status);
  if (waited == Waited::stopped) note_stop(tid, status);
  return waited != Waited::timeout;
}

Result<void> Threads::stop_one(pid_t tid, std::chrono::milliseconds deadline) {
  if (auto ok = seize(tid); !ok) return ok;
  auto found = threads_.find(tid);
  if (found == threads_.end()) return Error{fmt::format("thread {} of process {} has ended", tid, pid_)};
  if (found->second.stopped) return {};
  ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  if (!wait_stop(tid, Clock::now() + deadline))
    return Error{
        fmt::format("thread {} of process {} did not stop within {} ms (it may be in an uninterruptible "
                    "system call): try again later",
                    tid, pid_, deadline.count())};
  return {};
}

// Threads that wait for a vforked child would keep all others stopped until the deadline.
Result<void> Threads::wait_for_vforks(Clock::time_point until) const {
  for (;;) {
    std::vector<pid_t> all = live_threads(pid_);
    auto waits = std::find_if(all.begin(), all.end(), awaits_vfork);
    if (waits == all.end()) return {};
    if (Clock::now() > until)
      return Error{
          fmt::format("thread {} of process {} waits for a child that it made with vfork, and cannot be "
                      "stopped before that "
                      "executes a program or ends: nothing was changed, try again later",
                      *waits, pid_)};
    nap(1000);
  }
}

Result<void> Threads::stop_all(std::chrono::milliseconds deadline) {
  Clock::time_point until = Clock::now() + deadline;
  if (auto ok = wait_for_vforks(until); !ok) return ok;
  stopped_since_ = Clock::now();
  for (bool changed = true, quiet = false; changed || !quiet;) {
    quiet = !changed;
    changed = false;
    std::vector<pid_t> all = live_threads(pid_);
    if (quiet)  // the threads cannot start anything any more: look for what else runs in their memory
      for (pid_t other : memory_sharers(pid_))
        for (pid_t tid : live_threads(other)) all.push_back(tid);
    for (pid_t tid : all) {
      if (auto ok = seize(tid); !ok) {
        release_all();
        return ok;
      }
    }
    std::vector<pid_t> waiting;
    for (auto& [tid, thread] : threads_) {
      if (thread.stopped) continue;
      ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
      waiting.push_back(tid);
    }
    for (pid_t tid : waiting) {
      changed = true;
      if (wait_stop(tid, until)) continue;
      release_all();
      return Error{
          fmt::format("thread {} of process {} did not stop within {} ms (it may be in an uninterruptible "
                      "system call, or waiting for a vfork child): nothing was changed, try again later",
                      tid, pid_, deadline.count())};
    }
  }
  if (threads_.empty()) return Error{fmt::format("process {} has ended", pid_)};
  return {};
}

void Threads::release(pid_t tid) {
  auto found = threads_.find(tid);
  if (found == threads_.end()) return;
  if (!found->second.stopped) {  // detaching needs a stop
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    if (!wait_stop(tid, Clock::now() + std::chrono::seconds(2))) return;
    found = threads_.find(tid);
    if (found == threads_.end()) return;
  }
  if (found->second.stop_again) syscall(SYS_tkill, tid, SIGSTOP);
  ptrace(PTRACE_DETACH, tid, nullptr, found->second.signal);
  threads_.erase(tid);
}

void Threads::release_all() {
  // The first thread, then the others that are stopped, then those that have to stop for it. One that does
  // not stop now cannot be detached yet: it stays known, and is waited for again.
  std::vector<std::pair<int, pid_t>> all;
  for (auto& [tid, thread] : threads_) all.emplace_back(thread.stopped ? (tid == pid_ ? 0 : 1) : 2, tid);
  std::sort(all.begin(), all.end());
  for (auto& [turn, tid] : all) release(tid);
  if (threads_.empty()) end_pause();
}

std::vector<pid_t> Threads::stopped() const {
  std::vector<pid_t> out;
  for (const auto& [tid, thread] : threads_)
    if (thread.stopped) out.push_back(tid);
  return out;
}

Result<arch::ThreadRegisters> Threads::registers(pid_t tid) const {
  arch::ThreadRegisters regs{};
  iovec io{&regs, sizeof regs};
  if (ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &io) != 0)
    return Error{fmt::format("cannot read the registers of thread {}: {}", tid, std::strerror(errno))};
  return regs;
}

Result<void> Threads::set_registers(pid_t tid, const arch::ThreadRegisters& regs) {
  arch::ThreadRegisters copy = regs;
  iovec io{&copy, sizeof copy};
  if (ptrace(PTRACE_SETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &io) != 0)
    return Error{fmt::format("cannot set the registers of thread {}: {}", tid, std::strerror(errno))};
  return {};
}

bool Threads::has_signal(pid_t tid) const {
  auto found = threads_.find(tid);
  return found != threads_.end() && found->second.signal != 0;
}

Result<uint64_t> Threads::signal_mask(pid_t tid) const {
  constexpr auto kGetMask = static_cast<__ptrace_request>(0x420a);  // PTRACE_GETSIGMASK
  uint64_t mask = 0;
  if (ptrace(kGetMask, tid, sizeof mask, &mask) != 0)
    return Error{fmt::format("cannot read the signal mask of thread {}: {}", tid, std::strerror(errno))};
  return mask;
}

Result<void> Threads::set_signal_mask(pid_t tid, uint64_t mask) {
  constexpr auto kSetMask = static_cast<__ptrace_request>(0x420b);  // PTRACE_SETSIGMASK
  if (ptrace(kSetMask, tid, sizeof mask, &mask) != 0)
    return Error{fmt::format("cannot set the signal mask of thread {}: {}", tid, std::strerror(errno))};
  return {};
}

// The interruption stops it again where signals are handled, which is before it runs on.
bool Threads::take_signal(pid_t tid, std::chrono::milliseconds deadline) {
  auto found = threads_.find(tid);
  if (found == threads_.end() || !found->second.stopped) return false;
  const int signal = found->second.signal;
  found->second.signal = 0;
  found->second.stopped = false;
  ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  ptrace(PTRACE_CONT, tid, nullptr, signal);
  return wait_stop(tid, Clock::now() + deadline) && threads_.count(tid) != 0 && !has_signal(tid);
}

Threads::Stop Threads::run(pid_t tid, Step step, std::chrono::milliseconds deadline) {
  Clock::time_point until = Clock::now() + deadline;
  for (;;) {
    auto found = threads_.find(tid);
    if (found == threads_.end()) return Stop::exited;
    Thread& thread = found->second;
    if (thread.signal != 0) return Stop::signal;
    thread.stopped = false;
    auto request = step == Step::to_system_call ? PTRACE_SYSCALL : PTRACE_CONT;
    if (step == Step::to_signals) ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    if (ptrace(request, tid, nullptr, nullptr) != 0 && errno == ESRCH) return Stop::exited;
    int status = 0;
    Waited waited = wait_event(tid, until, status);
    if (waited != Waited::stopped) return waited == Waited::ended ? Stop::exited : Stop::timeout;
    thread.stopped = true;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return Stop::step;
    if (status >> 16 != 0) {  // ours, or a group stop, which takes effect when the thread is let go
      if (step == Step::to_signals) return Stop::step;
      continue;
    }
    if (WSTOPSIG(status) == SIGSTOP)
      thread.stop_again = true;
    else
      thread.signal = WSTOPSIG(status);
  }
}

}  // namespace mdl::process
