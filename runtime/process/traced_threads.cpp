#include "runtime/process/traced_threads.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/nap.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/memory.h"
#include "runtime/process/target.h"
#include "runtime/process/trace_stop.h"

namespace mdl::process {
namespace {

bool stands(pid_t tid) {
  const auto code = stop_code(tid);
  return code && *code != kExecuted;
}

}  // namespace

bool TracedThreads::executed() const {
  return executed_ || !memory_.is_of(pid_);
}

Error TracedThreads::left_alone() const {
  return another_program(pid_);
}

// Before anything of it is stopped: what is not stopped needs no mending.
Result<void> TracedThreads::check_program() {
  executed_ = executed();
  if (executed_) return left_alone();
  return {};
}

// One that runs may end at any moment, and has no memory from then on.
bool TracedThreads::is_known(pid_t tid) const {
  const auto found = threads_.find(tid);
  if (found == threads_.end() || !found->second.known) return false;
  return found->second.stopped ? stands(tid) : read_status(tid).has_memory;
}

// One that runs in our memory; 0 where there is none.
pid_t TracedThreads::any_known() const {
  for (const auto& [tid, thread] : threads_)
    if (is_known(tid)) return tid;
  return 0;
}

// Of these, which we trace, those that run in our memory. Where another one is known, its address space is compared,
// which is cheaper than to compare with the descriptor, and tells copies that fork(2) has made from each other. Of the
// first one the start of its process tells that: an id that is traced is given to nobody else, and of an execve we are
// told before anything else. Who has memory behind the comparison has had it.
void TracedThreads::find_known(std::span<const pid_t> tids) {
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
void TracedThreads::leave_others() {
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

Result<void> TracedThreads::may_set(pid_t tid) const {
  const Error no{
      fmt::format("thread {} of process {} is not stopped any more: nothing was set in it", tid, pid_)};
  return is_ours(tid) && stands(tid) ? Result<void>{} : no;
}

bool TracedThreads::is_ours(pid_t tid) const {
  const auto found = threads_.find(tid);
  if (found == threads_.end() || !found->second.stopped || !found->second.known) return false;
  const pid_t process = found->second.process;
  return tid != process || std::ranges::none_of(threads_, [process](const auto& one) {
           return one.second.process == process && !one.second.stopped;
         });
}

// It is not of the program that was opened, and goes on as it is. `signal`: of its own, due now.
void TracedThreads::leave(pid_t tid, int signal) {
  // An id may also have come to mean a thread of another process.
  if (read_status(tid).group == pid_ && (stop_code(tid) == kExecuted || memory_.runs(tid) == Runs::elsewhere))
    executed_ = true;
  detach(tid, signal);
}

// The id has vanished without an end that we were told of. That of a thread which executes a program does: it
// becomes the first of its process, and is traced as that.
void TracedThreads::lose(pid_t tid) {
  const auto lost = threads_.extract(tid);
  if (!lost || lost.mapped().process == tid) return;
  const pid_t process = lost.mapped().process;
  if (is_left_running(process)) return;  // it has ended with all its threads, and another one has its id
  auto first = threads_.find(process);
  if (first != threads_.end() && first->second.stopped && stands(process)) return;  // it has ended, after all
  threads_[process] = {.process = process};
}

// It was killed in its stop, or its id has vanished.
void TracedThreads::forget_ended(pid_t tid) {
  int status = 0;
  const pid_t got = wait_now(tid, status);
  if (got < 0) return lose(tid);
  threads_.erase(tid);
  if (got == 0) ending_.insert(tid);
}

void TracedThreads::detach(pid_t tid, int signal) {
  threads_.erase(tid);
  if (!let_go(tid, signal)) ending_.insert(tid);
}

// Threads that were killed. One that executes a program waits until all others are gone; its own id may
// vanish, which is no end. Of a first thread that ends before its others nobody is told before they end, too.
void TracedThreads::reap_ended() {
  std::erase_if(ending_, has_been_reaped);
  std::erase_if(threads_, [](const auto& entry) {
    const auto& [tid, thread] = entry;
    if (tid != thread.process) return reap(tid);
    if (thread.stopped || is_alive_thread(tid)) return false;
    stop_tracing_later(tid);
    return true;
  });
}

Result<void> TracedThreads::seize(pid_t tid, pid_t process) {
  if (threads_.count(tid)) return {};
  if (threads_.empty())
    if (auto ok = check_program(); !ok) return ok;
  pause_.begin();
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
Result<void> TracedThreads::seize_each(const std::vector<std::pair<pid_t, pid_t>>& all) {
  if (all.empty()) return {};
  std::vector<pid_t> tids, processes;
  for (const auto& [tid, process] : all)
    if (!threads_.count(tid) && tid != memory_.held()) tids.push_back(tid), processes.push_back(process);
  if (threads_.empty())
    if (auto ok = check_program(); !ok) return ok;
  pause_.begin();
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
void TracedThreads::note_stops(std::span<const StopSeen> stops) {
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
std::optional<TracedThreads::Waited> TracedThreads::note_event(pid_t tid, pid_t got, int status) {
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

TracedThreads::Waited TracedThreads::wait_event(pid_t tid, Clock::time_point until, int& status) {
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
bool TracedThreads::wait_stop(pid_t tid, Clock::time_point until) {
  int status = 0;
  Waited waited = wait_event(tid, until, status);
  if (waited == Waited::stopped) note_stops(std::array{StopSeen{tid, status}});
  return waited != Waited::timeout;
}

// Until all are stopped or gone; else one that is not.
std::optional<pid_t> TracedThreads::wait_stops(std::vector<pid_t> tids, Clock::time_point until) {
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

std::vector<pid_t> TracedThreads::stopped() const {
  std::vector<pid_t> out;
  for (const auto& [tid, thread] : threads_)
    if (thread.stopped) out.push_back(tid);
  return out;
}

Result<arch::ThreadRegisters> TracedThreads::registers(pid_t tid) const {
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

Result<void> TracedThreads::set_registers(pid_t tid, const arch::ThreadRegisters& regs) {
  if (auto ok = may_set(tid); !ok) return ok;
  if (!write_registers(tid, regs))
    return Error{fmt::format("cannot set the registers of thread {}: {}", tid, std::strerror(errno))};
  threads_[tid].registers = regs;
  return {};
}

bool TracedThreads::has_signal(pid_t tid) const {
  auto found = threads_.find(tid);
  return found != threads_.end() && found->second.signal != 0;
}

Result<uint64_t> TracedThreads::signal_mask(pid_t tid) const {
  uint64_t mask = 0;
  if (!kernel::read_signal_mask(tid, mask))
    return Error{fmt::format("cannot read the signal mask of thread {}: {}", tid, std::strerror(errno))};
  return mask;
}

Result<void> TracedThreads::set_signal_mask(pid_t tid, uint64_t mask) {
  if (auto ok = may_set(tid); !ok) return ok;
  if (!kernel::write_signal_mask(tid, mask))
    return Error{fmt::format("cannot set the signal mask of thread {}: {}", tid, std::strerror(errno))};
  return {};
}

}  // namespace mdl::process
