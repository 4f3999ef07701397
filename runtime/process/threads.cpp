#include "runtime/process/threads.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "base/nap.h"
#include "base/watchdog.h"
#include "runtime/image/image.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/memory.h"
#include "runtime/process/target.h"
#include "runtime/process/trace_stop.h"

namespace mdl::process {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLettingGo{2};  // for threads that must stop once more to be let go
constexpr std::chrono::seconds kReaping{2};  // for the kernel to end threads that were killed in their stops

bool stands(pid_t tid) {
  const auto code = stop_code(tid);
  return code && *code != kExecuted;
}

}  // namespace

Threads::~Threads() {
  release_all();
  end_pause();
}

// A Ctrl-C while threads are stopped would end us between a thread's stop and its mending. And a process that
// waits for us must not wait for others: on a busy machine we go first then, if we may.
void Threads::begin_pause() {
  if (pausing_) return;
  pausing_ = true;
  target_stands(true);
  hurried_ = kernel::hurry(true);
  sigset_t held;
  sigemptyset(&held);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &mask_);
}

void Threads::end_pause() {
  if (!pausing_) return;
  pausing_ = false;
  target_stands(false);
  if (hurried_) kernel::hurry(false);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

bool Threads::executed() const {
  return executed_ || !memory_.is_of(pid_);
}

Error Threads::left_alone() const {
  return another_program(pid_);
}

// Before anything of it is stopped: what is not stopped needs no mending.
Result<void> Threads::check_program() {
  executed_ = executed();
  if (executed_) return left_alone();
  return {};
}

// One that runs may end at any moment, and has no memory from then on.
bool Threads::is_known(pid_t tid) const {
  const auto found = threads_.find(tid);
  if (found == threads_.end() || !found->second.known) return false;
  return found->second.stopped ? stands(tid) : read_status(tid).has_memory;
}

// One that runs in our memory; 0 where there is none.
pid_t Threads::any_known() const {
  for (const auto& [tid, thread] : threads_)
    if (is_known(tid)) return tid;
  return 0;
}

// Of these, which we trace, those that run in our memory. Where another one is known, its address space is compared,
// which is cheaper than to compare with the descriptor, and tells copies that fork(2) has made from each other. Of the
// first one the start of its process tells that: an id that is traced is given to nobody else, and of an execve we are
// told before anything else. Who has memory behind the comparison has had it.
void Threads::find_known(std::span<const pid_t> tids) {
  while (!tids.empty()) {
    std::vector<std::optional<bool>> same;
    const pid_t other = any_known();
    if (other != 0) same = kernel::compare_memory_each(other, tids);
    if (!is_known(other)) same.assign(1, std::nullopt);
    for (size_t i = 0; i < same.size(); i++) {
      Thread& thread = threads_[tids[i]];
      thread.known = same[i] ? *same[i]
                             : read_status(tids[i]).group == thread.process &&
                                   memory_.runs(tids[i]) == Runs::here &&
                                   (thread.process != pid_ || memory_.is_of(pid_));
    }
    tids = tids.subspan(same.size());
  }
}

// Before they are stopped: nobody would mend the call that a stop interrupts in a thread that is not ours. Its id was
// another's in the moment before it was seized. One that ends has no memory any more.
void Threads::leave_others() {
  std::vector<pid_t> tids;
  for (const auto& [tid, thread] : threads_)
    if (!thread.known && !thread.stopped) tids.push_back(tid);
  find_known(tids);
  for (const pid_t tid : tids) {
    if (threads_[tid].known) continue;
    const auto status = read_status(tid);
    if (!status.has_memory) continue;
    if (status.group == pid_) executed_ = true;
    threads_.erase(tid);
    leave_running(tid);
  }
}

Result<void> Threads::may_set(pid_t tid) const {
  const Error no{
      fmt::format("thread {} of process {} is not stopped any more: nothing was set in it", tid, pid_)};
  return is_ours(tid) && stands(tid) ? Result<void>{} : no;
}

bool Threads::is_ours(pid_t tid) const {
  const auto found = threads_.find(tid);
  if (found == threads_.end() || !found->second.stopped || !found->second.known) return false;
  const pid_t process = found->second.process;
  return tid != process || std::ranges::none_of(threads_, [process](const auto& one) {
           return one.second.process == process && !one.second.stopped;
         });
}

// It is not of the program that was opened, and goes on as it is. `signal`: of its own, due now.
void Threads::leave(pid_t tid, int signal) {
  // An id may also have come to mean a thread of another process.
  if (read_status(tid).group == pid_ && (stop_code(tid) == kExecuted || memory_.runs(tid) == Runs::elsewhere))
    executed_ = true;
  detach(tid, signal);
}

// The id has vanished without an end that we were told of. That of a thread which executes a program does: it
// becomes the first of its process, and is traced as that.
void Threads::lose(pid_t tid) {
  const auto lost = threads_.extract(tid);
  if (!lost || lost.mapped().process == tid) return;
  const pid_t process = lost.mapped().process;
  if (is_left_running(process)) return;  // it has ended with all its threads, and another one has its id
  auto first = threads_.find(process);
  if (first != threads_.end() && first->second.stopped && stands(process)) return;  // it has ended, after all
  threads_[process] = {.process = process};
}

// It was killed in its stop, or its id has vanished.
void Threads::forget_ended(pid_t tid) {
  int status = 0;
  const pid_t got = wait_now(tid, status);
  if (got < 0) return lose(tid);
  threads_.erase(tid);
  if (got == 0) ending_.insert(tid);
}

void Threads::detach(pid_t tid, int signal) {
  threads_.erase(tid);
  if (!let_go(tid, signal)) ending_.insert(tid);
}

// Threads that were killed. One that executes a program waits until all others are gone; its own id may
// vanish, which is no end. Of a first thread that ends before its others nobody is told before they end, too.
void Threads::reap_ended() {
  std::erase_if(ending_, has_been_reaped);
  std::erase_if(threads_, [](const auto& entry) {
    const auto& [tid, thread] = entry;
    if (tid != thread.process) return reap(tid);
    if (thread.stopped || is_alive_thread(tid)) return false;
    stop_tracing_later(tid);
    return true;
  });
}

Result<void> Threads::seize(pid_t tid, pid_t process) {
  if (threads_.count(tid)) return {};
  if (threads_.empty())
    if (auto ok = check_program(); !ok) return ok;
  begin_pause();
  if (tid == memory_.held()) {
    // It has stood since its memory was opened. The signal of its stop is its own.
    int status = 0;
    const int signal =
        wait_now(tid, status) == tid && WIFSTOPPED(status) && is_signal(status) ? WSTOPSIG(status) : 0;
    if (stands(tid)) threads_[tid] = {.process = process, .stopped = true, .known = true, .signal = signal};
    return {};
  }
  for (int attempt = 0;; attempt++) {
    if (kernel::seize(tid)) {
      threads_[tid] = {.process = process};
      return {};
    }
    if (errno == ESRCH) return {};  // it has ended meanwhile
    if (errno != EPERM)
      return Error{
          fmt::format("cannot attach to thread {} of process {}: {}", tid, pid_, std::strerror(errno))};
    // A thread that is ending is refused like one that may not be traced, and like one that another
    // mdl-inject has traced: when that ends, it gives up the lock before its threads.
    if (!is_alive_thread(tid)) return {};
    // One that could not be let go because it ran is traced still.
    if (ending_.erase(tid) != 0) stop_tracing(tid);
    stop_tracing_all();
    const bool is_ours = read_status(tid).tracer == kernel::own_id();  // for something else (exec_watch.h)
    if (attempt == 200 || is_ours) return permission_error(tid);
    nap(500);
  }
}

// Those that there is something to say about, or that were seized elsewhere, are left to seize().
Result<void> Threads::seize_each(const std::vector<std::pair<pid_t, pid_t>>& all) {
  if (all.empty()) return {};
  std::vector<pid_t> tids, processes;
  for (const auto& [tid, process] : all)
    if (!threads_.count(tid) && tid != memory_.held()) tids.push_back(tid), processes.push_back(process);
  if (threads_.empty())
    if (auto ok = check_program(); !ok) return ok;
  begin_pause();
  const auto seized = kernel::seize_each(tids);
  for (size_t i = 0; i < tids.size(); i++)
    if (seized[i].value) threads_[tids[i]] = {.process = processes[i]};
  for (const auto& [tid, process] : all)
    if (auto ok = seize(tid, process); !ok) return ok;
  leave_others();
  return {};
}

// A stop that interrupted a sleeper is hidden at once, so that whoever lets the thread go, also
// half-way through something that failed, lets it sleep on.
void Threads::note_stops(std::span<const StopSeen> stops) {
  std::vector<pid_t> tids, unknown;
  for (const auto& [tid, status] : stops) {
    Thread& thread = threads_[tid];
    thread.stopped = true;
    if (is_signal(status)) thread.signal = WSTOPSIG(status);
    if (!thread.known) unknown.push_back(tid);
  }
  find_known(unknown);
  for (const StopSeen& stop : stops) {
    const Thread& thread = threads_[stop.tid];
    if (thread.known)
      tids.push_back(stop.tid);
    else
      leave(stop.tid, thread.signal);
  }
  const auto registers = read_registers_each(tids);
  for (size_t i = 0; i < tids.size(); i++) {
    if (registers[i].size == 0) continue;
    threads_[tids[i]].registers = registers[i];
    arch::ThreadRegisters hidden = registers[i];
    if (arch::hide_interruption(hidden)) (void)set_registers(tids[i], hidden).operator bool();
  }
}

// `got`: of kernel::next_event(). Nothing where that was nothing.
std::optional<Threads::Waited> Threads::note_event(pid_t tid, pid_t got, int status) {
  if (got == tid && WIFSTOPPED(status) && status >> 8 != kExecuted) return Waited::stopped;
  if (got != tid && !(got < 0 && errno == ECHILD)) return std::nullopt;
  if (got != tid)
    lose(tid);
  else if (WIFSTOPPED(status))
    leave(tid, 0);
  else
    threads_.erase(tid);
  return Waited::ended;
}

Threads::Waited Threads::wait_event(pid_t tid, Clock::time_point until, int& status) {
  for (int round = 0;; round++) {
    const pid_t got = kernel::next_event(tid, kernel::kMoment, status);
    if (const auto noted = note_event(tid, got, status)) return *noted;
    if (Clock::now() > until) return Waited::timeout;
    if (round % 4 == 3) reap_ended();
    if (!threads_.contains(tid)) return Waited::ended;
    if (round > 15) nap(500);
  }
}

// True when the thread is stopped or gone.
bool Threads::wait_stop(pid_t tid, Clock::time_point until) {
  int status = 0;
  Waited waited = wait_event(tid, until, status);
  if (waited == Waited::stopped) note_stops(std::array{StopSeen{tid, status}});
  return waited != Waited::timeout;
}

// Until all are stopped or gone; else one that is not.
std::optional<pid_t> Threads::wait_stops(std::vector<pid_t> tids, Clock::time_point until) {
  for (int round = 0;; round++) {
    std::vector<int> statuses;
    const auto events = kernel::next_events(tids, statuses);
    std::vector<StopSeen> stops;
    std::vector<pid_t> left;
    for (size_t i = 0; i < tids.size(); i++) {
      errno = events[i].error;
      const auto noted = note_event(tids[i], events[i].value, statuses[i]);
      if (noted == Waited::stopped) stops.push_back({tids[i], statuses[i]});
      if (!noted) left.push_back(tids[i]);
    }
    note_stops(stops);
    tids = std::move(left);
    if (tids.empty()) return std::nullopt;
    if (Clock::now() > until) return tids.front();
    if (round % 16 == 15) {  // a question for each thread
      reap_ended();
      std::erase_if(tids, [this](pid_t tid) { return !threads_.contains(tid); });
    }
    nap(round > 15 ? 100 : 20);
  }
}

Result<void> Threads::stop_one(pid_t tid, std::chrono::milliseconds deadline) {
  if (auto ok = seize(tid, pid_); !ok) return ok;
  leave_others();
  const auto gone = [&] {
    return executed_ ? left_alone() : Error{fmt::format("thread {} of process {} has ended", tid, pid_)};
  };
  auto found = threads_.find(tid);
  if (found == threads_.end()) return gone();
  if (found->second.stopped) return {};
  kernel::interrupt(tid);
  if (!wait_stop(tid, Clock::now() + deadline))
    return Error{
        fmt::format("thread {} of process {} did not stop within {} ms (it may be in an uninterruptible "
                    "system call): try again later",
                    tid, pid_, deadline.count())};
  if (!threads_.count(tid)) return gone();
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

Result<void> Threads::stop_all(std::chrono::milliseconds deadline, std::chrono::milliseconds limit) {
  late_ = false;
  limit_ = limit;
  if (auto ok = wait_for_vforks(Clock::now() + deadline); !ok) return ok;
  begin_pause();  // on a busy machine it would wait for its turn while they stand
  std::vector<pid_t> sharers = memory_sharers(pid_, false);
  stopped_since_ = Clock::now();
  const Clock::time_point until = stopped_since_ + limit;
  for (bool changed = true, quiet = false; changed || !quiet;) {
    quiet = !changed;
    changed = false;
    if (Clock::now() > until) {
      late_ = true;
      release_all();
      return Error{
          fmt::format("the threads of process {} cannot be stopped within {} ms, because the machine is busy "
                      "or they start "
                      "others as fast: nothing was changed, try again later",
                      pid_, limit.count())};
    }
    std::vector<std::pair<pid_t, pid_t>> all;  // with their processes
    // Each is looked at as long as none stands; later on, seize() leaves out those that have ended.
    const bool also_ended = !threads_.empty();
    for (pid_t tid : live_threads(pid_, also_ended)) all.emplace_back(tid, pid_);
    if (quiet) {  // the threads cannot start anything any more: look for what else runs in their memory
      for (pid_t other : memory_sharers(pid_, true)) sharers.push_back(other);
      for (pid_t other : sharers)
        for (pid_t tid : live_threads(other, also_ended)) all.emplace_back(tid, other);
    }
    if (auto ok = seize_each(all); !ok) {
      release_all();
      return ok;
    }
    std::vector<pid_t> others, firsts;  // may_set() wants a first thread's others stopped
    for (const auto& [tid, thread] : threads_)
      if (!thread.stopped) (tid == thread.process ? firsts : others).push_back(tid);
    kernel::interrupt_each(others);
    kernel::interrupt_each(firsts);
    const bool all_ended = threads_.empty() && !all.empty();  // while they were seized, and others have begun
    changed = !others.empty() || !firsts.empty() || all_ended;
    std::optional<pid_t> late = wait_stops(others, until);
    if (!late && !executed_) late = wait_stops(firsts, until);
    if (!late && !executed_) continue;
    release_all();
    if (!late) return left_alone();
    late_ = true;
    return Error{
        fmt::format("thread {} of process {} did not stop within {} ms (it may be in an uninterruptible "
                    "system call, or waiting for a vfork child): nothing was changed, try again later",
                    *late, pid_, limit.count())};
  }
  if (!threads_.empty()) return {};
  end_pause();
  return Error{fmt::format("process {} has ended", pid_)};
}

void Threads::release(pid_t tid) {
  release(tid, Clock::now() + kLettingGo);
}

void Threads::release(pid_t tid, Clock::time_point until) {
  auto found = threads_.find(tid);
  if (found == threads_.end()) return;
  if (!found->second.stopped) {  // detaching needs a stop
    if (!kernel::interrupt(tid)) return forget_ended(tid);
    if (!wait_stop(tid, until)) return;
    found = threads_.find(tid);
    if (found == threads_.end()) return;
  }
  const auto code = stop_code(tid);
  if (!code) return forget_ended(tid);
  if (*code == kExecuted) return leave(tid, 0);
  // It stands in a stop of ours: its id is its own.
  if (found->second.stop_again) kernel::stop_again(found->second.process, tid);
  if (tid == memory_.held())
    threads_.erase(found);
  else
    detach(tid, found->second.signal);
}

// Those that stand where nothing is to be done but to let them go.
void Threads::release_each(std::span<const pid_t> tids) {
  std::vector<siginfo_t> infos;
  const auto read = kernel::read_signals(tids, infos);
  std::vector<pid_t> going;
  std::vector<int> signals;
  for (size_t i = 0; i < tids.size(); i++)
    if (read[i].value && infos[i].si_code != kExecuted)
      going.push_back(tids[i]), signals.push_back(threads_[tids[i]].signal);
  const auto gone = kernel::detach_each(going, signals);
  for (size_t i = 0; i < going.size(); i++) {
    threads_.erase(going[i]);
    if (!gone[i].value && gone[i].error == ESRCH) ending_.insert(going[i]);
  }
}

void Threads::release_all() {
  others_until_.reset();
  // The first thread, then the others that are stopped, then those that have to stop for it, of these the
  // first one last. One that does not stop now cannot be detached yet: it stays known, and is waited for
  // again.
  std::vector<std::pair<int, pid_t>> all;
  for (auto& [tid, thread] : threads_) {
    if (tid == kept_) continue;
    const bool first = tid == thread.process;
    all.emplace_back(thread.stopped ? (first ? 0 : 1) : (first ? 3 : 2), tid);
  }
  std::sort(all.begin(), all.end());
  const auto let_go = Clock::now() + kLettingGo;  // all of them
  std::vector<pid_t> standing;
  for (auto& [turn, tid] : all)
    if (const Thread& thread = threads_[tid]; thread.stopped && !thread.stop_again && tid != memory_.held())
      standing.push_back(tid);
  // One that has to stop again goes by itself, and the first thread goes first.
  if (!standing.empty() && standing.front() == all.front().second) release_each(standing);
  for (auto& [turn, tid] : all) release(tid, let_go);
  // One that was found out to have another's id.
  std::vector<pid_t> ids;
  for (const auto& [tid, thread] : threads_)
    if (tid != kept_) ids.push_back(tid);
  for (pid_t tid : ids)
    if (std::ranges::none_of(all, [tid](const auto& one) { return one.second == tid; })) release(tid, let_go);
  for (const auto until = Clock::now() + kReaping; !ending_.empty() && Clock::now() < until; nap(500))
    reap_ended();
  for (const pid_t tid : std::exchange(ending_, {})) stop_tracing(tid);
  if (threads_.empty()) end_pause();
}

std::vector<pid_t> Threads::stopped() const {
  std::vector<pid_t> out;
  for (const auto& [tid, thread] : threads_)
    if (thread.stopped) out.push_back(tid);
  return out;
}

Result<arch::ThreadRegisters> Threads::registers(pid_t tid) const {
  const auto found = threads_.find(tid);
  if (found != threads_.end() && found->second.stopped && found->second.registers)
    return *found->second.registers;
  arch::ThreadRegisters regs{};
  if (!read_registers(tid, regs) && regs.size != 0)
    return Error{fmt::format(
        "thread {} runs 32-bit code: its registers and its stack are not what is known here", tid)};
  if (regs.size == 0)
    return Error{fmt::format("cannot read the registers of thread {}: {}", tid, std::strerror(errno))};
  return regs;
}

Result<void> Threads::set_registers(pid_t tid, const arch::ThreadRegisters& regs) {
  if (auto ok = may_set(tid); !ok) return ok;
  if (!write_registers(tid, regs))
    return Error{fmt::format("cannot set the registers of thread {}: {}", tid, std::strerror(errno))};
  threads_[tid].registers = regs;
  return {};
}

bool Threads::has_signal(pid_t tid) const {
  auto found = threads_.find(tid);
  return found != threads_.end() && found->second.signal != 0;
}

Result<uint64_t> Threads::signal_mask(pid_t tid) const {
  uint64_t mask = 0;
  if (!kernel::read_signal_mask(tid, mask))
    return Error{fmt::format("cannot read the signal mask of thread {}: {}", tid, std::strerror(errno))};
  return mask;
}

Result<void> Threads::set_signal_mask(pid_t tid, uint64_t mask) {
  if (auto ok = may_set(tid); !ok) return ok;
  if (!kernel::write_signal_mask(tid, mask))
    return Error{fmt::format("cannot set the signal mask of thread {}: {}", tid, std::strerror(errno))};
  return {};
}

// The interruption stops it again where signals are handled, which is before it runs on.
bool Threads::take_signal(pid_t tid, std::chrono::milliseconds deadline) {
  auto found = threads_.find(tid);
  if (found == threads_.end() || !may_set(tid)) return false;
  const int signal = found->second.signal;
  found->second.signal = 0;
  found->second.stopped = false;
  found->second.registers.reset();
  kernel::interrupt(tid);
  kernel::go_on(tid, signal);
  return wait_stop(tid, Clock::now() + deadline) && threads_.count(tid) != 0 && !has_signal(tid);
}

bool Threads::stop_others(pid_t tid) {
  if (!others_went_on_ || others_until_) return true;
  kept_ = tid;
  const bool stand = stop_all({}, limit_).operator bool();
  kept_ = 0;
  if (stand)
    others_until_ = stopped_since_ + limit_;
  else if (late_)
    stood_ += Clock::now() - stopped_since_;
  return stand;
}

std::chrono::nanoseconds Threads::stood() const {
  return others_went_on_ && !others_until_ ? stood_ : stood_ + (Clock::now() - stopped_since_);
}

Threads::Waited Threads::wait_alone(pid_t tid, Clock::time_point until, int& status) {
  if (!others_until_ || *others_until_ >= until) return wait_event(tid, until, status);
  const Waited waited = wait_event(tid, *others_until_, status);
  if (waited != Waited::timeout) return waited;
  stood_ = stood();
  others_until_.reset();
  others_went_on_ = true;
  for (const pid_t other : stopped())
    if (other != tid) release(other);
  return wait_event(tid, until, status);
}

Threads::Stop Threads::run(pid_t tid, Step step, std::chrono::milliseconds deadline) {
  Clock::time_point until = Clock::now() + deadline;
  for (;;) {
    auto found = threads_.find(tid);
    if (found == threads_.end() || !is_ours(tid)) return Stop::exited;
    Thread& thread = found->second;
    if (thread.signal != 0) return Stop::signal;
    int status = 0;
    thread.call = {};
    const pid_t got = kernel::step(tid, step == Step::to_signals, thread.call, status);
    if (got < 0) return Stop::exited;
    thread.stopped = false;
    thread.registers.reset();
    const auto noted = note_event(tid, got, status);
    const Waited waited = noted ? *noted : wait_alone(tid, until, status);
    if (waited != Waited::stopped) return waited == Waited::ended ? Stop::exited : Stop::timeout;
    thread.stopped = true;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      if (!noted) kernel::read_system_call(tid, thread.call);
      return Stop::step;
    }
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
