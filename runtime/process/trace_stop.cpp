#include "runtime/process/trace_stop.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/nap.h"
#include "runtime/kernel/handle.h"
#include "runtime/process/target.h"

namespace mdl::process {

using namespace std::chrono_literals;

namespace {

std::set<pid_t> running;  // that are traced still
std::set<pid_t> others;   // and are not ours

// True when the thread is not traced any more.
bool let_go_once_stopped(pid_t tid) {
  int status = 0;
  const pid_t got = wait_now(tid, status);
  if (got < 0 || (got == tid && !WIFSTOPPED(status))) return true;
  const auto code = stop_code(tid);
  if (!code) {
    kernel::interrupt(tid);
    return false;
  }
  if (*code != kExecuted && (got == 0 || !is_signal(status))) hide_interruption(tid);
  let_go_or_reap(tid, got == tid && is_signal(status) ? WSTOPSIG(status) : 0);
  return true;
}

// The same of one whose registers and stops are its own.
bool let_other_go(pid_t tid) {
  int status = 0;
  const pid_t got = wait_now(tid, status);
  if (got == 0) return false;
  if (got == tid && WIFSTOPPED(status)) let_go_or_reap(tid, is_signal(status) ? WSTOPSIG(status) : 0);
  return true;
}

}  // namespace

std::optional<int> stop_code(pid_t tid) {
  siginfo_t info{};
  if (kernel::read_signal(tid, info)) return info.si_code;
  if (errno == EINVAL) return 0;  // a group stop
  return std::nullopt;
}

pid_t wait_now(pid_t tid, int& status) {
  return kernel::next_event(tid, {}, status);
}

bool has_been_reaped(pid_t tid) {
  return read_status(tid).tracer != kernel::own_id() || reap(tid);
}

bool reap(pid_t tid) {
  // The kernel reports the stop of a tracee also to one who asks only for ends, so it is looked at first.
  siginfo_t info{};
  if (!kernel::look_at_event(tid, WEXITED, info)) return false;
  const bool ended = info.si_pid == tid &&
                     (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
  int status = 0;
  return ended && kernel::take_event(tid, status) == tid;
}

bool let_go(pid_t tid, int signal) {
  return kernel::detach(tid, signal) || errno != ESRCH;
}

void let_go_or_reap(pid_t tid, int signal) {
  const auto until = std::chrono::steady_clock::now() + 2s;
  if (let_go(tid, signal)) return;
  while (!has_been_reaped(tid) && std::chrono::steady_clock::now() < until) nap(500);
}

void stop_tracing(pid_t tid) {
  const auto until = std::chrono::steady_clock::now() + 100ms;
  bool done = false;
  while (!(done = let_go_once_stopped(tid)) && std::chrono::steady_clock::now() < until) nap(20);
  if (!done) stop_tracing_later(tid);
}

void stop_tracing_later(pid_t tid) {
  running.insert(tid);
}

void leave_running(pid_t tid) {
  others.insert(tid);
}

bool is_left_running(pid_t tid) {
  return others.contains(tid);
}

void stop_tracing_all() {
  std::erase_if(running, let_go_once_stopped);
  std::erase_if(others, let_other_go);
}

bool read_registers(pid_t tid, arch::ThreadRegisters& registers) {
  registers.size = kernel::read_registers(tid, std::as_writable_bytes(std::span(registers.words)));
  return registers.size != 0 && arch::are_whole(registers);
}

std::vector<arch::ThreadRegisters> read_registers_each(std::span<const pid_t> tids) {
  std::vector<decltype(arch::ThreadRegisters::words)> words(tids.size());
  const auto sizes = kernel::read_registers_each(tids, std::as_writable_bytes(std::span(words)));
  std::vector<arch::ThreadRegisters> out;
  for (size_t i = 0; i < tids.size(); i++)
    if (!arch::are_whole(out.emplace_back(arch::ThreadRegisters{.words = words[i], .size = sizes[i].value})))
      out.back().size = 0;
  return out;
}

bool write_registers(pid_t tid, const arch::ThreadRegisters& registers) {
  return kernel::write_registers(tid, std::as_bytes(std::span(registers.words)).first(registers.size));
}

void hide_interruption(pid_t tid) {
  arch::ThreadRegisters registers{};
  if (read_registers(tid, registers) && arch::hide_interruption(registers)) write_registers(tid, registers);
}

bool stop_in(pid_t tid, const TargetMemory& memory, std::span<const image::Range> code, bool may_return,
             std::chrono::milliseconds patience, arch::ThreadRegisters& registers) {
  const auto until = std::chrono::steady_clock::now() + patience;
  kernel::interrupt(tid);
  for (int status = 0; std::chrono::steady_clock::now() < until;) {
    const pid_t got = kernel::next_event(tid, kernel::kMoment, status);
    if (got == 0) continue;
    if (got < 0 || !WIFSTOPPED(status) || status >> 8 == kExecuted || memory.runs(tid) != Runs::here)
      return false;
    if (is_signal(status)) {
      may_return = true;
    } else {
      if (!read_registers(tid, registers)) return false;
      const uint64_t at = arch::pc(registers);
      if (std::ranges::any_of(code, [at](const image::Range& range) { return range.contains(at); }))
        return true;
      hide_interruption(tid);
      if (!may_return) return false;
    }
    kernel::go_on(tid, is_signal(status) ? WSTOPSIG(status) : 0);
    nap(1000);
    kernel::interrupt(tid);
  }
  return false;
}

}  // namespace mdl::process
