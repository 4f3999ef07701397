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
#include "runtime/image/image.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/memory.h"
#include "runtime/process/target.h"
#include "runtime/process/trace_stop.h"

namespace mdl::process {
namespace {

constexpr std::chrono::seconds kLettingGo{2};  // for threads that must stop once more to be let go
constexpr std::chrono::seconds kReaping{2};  // for the kernel to end threads that were killed in their stops

}  // namespace

Threads::~Threads() {
  release_all();
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
                    "system call, or frozen with its control group): try again later",
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
  pause_.begin();  // on a busy machine it would wait for its turn while they stand
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
                    "system call, frozen with its control group, or waiting for a vfork child): nothing was "
                    "changed, try again later",
                    *late, pid_, limit.count())};
  }
  if (!threads_.empty()) return {};
  pause_.end();
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
  // The first thread, then the others that are stopped, then those that have to stop for it. One that does not
  // stop now cannot be detached yet: it stays known, and is waited for again.
  constexpr int kRuns = 2;
  std::vector<std::pair<int, pid_t>> all;
  for (auto& [tid, thread] : threads_) {
    if (tid == kept_) continue;
    const bool first = tid == thread.process;
    all.emplace_back(thread.stopped ? (first ? 0 : 1) : (first ? 3 : kRuns), tid);
  }
  std::sort(all.begin(), all.end());
  const auto let_go = Clock::now() + kLettingGo;  // all of them
  std::vector<pid_t> standing;
  for (auto& [turn, tid] : all)
    if (const Thread& thread = threads_[tid]; thread.stopped && !thread.stop_again && tid != memory_.held())
      standing.push_back(tid);
  // One that has to stop again goes by itself, and the first thread goes first.
  if (!standing.empty() && standing.front() == all.front().second) release_each(standing);
  for (auto& [turn, tid] : all)
    if (turn < kRuns) release(tid, let_go);
  // Each goes as soon as it stands: it need not stand until one has stopped that gets no processor. But where an
  // interruption must be hidden in the first thread, that waits for the others (may_set()).
  std::vector<pid_t> running;
  for (auto& [turn, tid] : all)
    if (turn >= kRuns && kernel::interrupt(tid)) running.push_back(tid);
  const auto may_go = [&](pid_t tid) {
    if (!threads_.contains(tid)) return true;
    if (!threads_[tid].stopped && !wait_stop(tid, {})) return false;  // it is not waited for
    const auto found = threads_.find(tid);
    if (found == threads_.end() || !found->second.registers) return true;
    arch::ThreadRegisters hidden = *found->second.registers;
    return !arch::hide_interruption(hidden) || set_registers(tid, hidden).operator bool();
  };
  for (; !running.empty() && Clock::now() < let_go; nap(100))
    std::erase_if(running, [&](pid_t tid) {
      const bool goes = may_go(tid);
      if (goes) release(tid, let_go);
      return goes;
    });
  for (auto& [turn, tid] : all)
    if (turn >= kRuns) release(tid, let_go);
  // One that was found out to have another's id.
  std::vector<pid_t> ids;
  for (const auto& [tid, thread] : threads_)
    if (tid != kept_) ids.push_back(tid);
  for (pid_t tid : ids)
    if (std::ranges::none_of(all, [tid](const auto& one) { return one.second == tid; })) release(tid, let_go);
  for (const auto until = Clock::now() + kReaping; !ending_.empty() && Clock::now() < until; nap(500))
    reap_ended();
  for (const pid_t tid : std::exchange(ending_, {})) stop_tracing(tid);
  if (threads_.empty()) pause_.end();
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
