#include "runtime/process/trace_stop.h"

#include <elf.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <set>

#include "runtime/process/target.h"

namespace mdl::process {

using namespace std::chrono_literals;

namespace {

std::set<pid_t> running;  // that are traced still

// True when the thread is not traced any more.
bool let_go_once_stopped(pid_t tid) {
  int status = 0;
  const pid_t got = wait_now(tid, status);
  if (got < 0 || (got == tid && !WIFSTOPPED(status))) return true;
  const auto code = stop_code(tid);
  if (!code) {
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    return false;
  }
  if (*code != kExecuted && (got == 0 || !is_signal(status))) hide_interruption(tid);
  let_go_or_reap(tid, got == tid && is_signal(status) ? WSTOPSIG(status) : 0);
  return true;
}

}  // namespace

bool is_signal(int status) {
  return status >> 16 == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80);
}

std::optional<int> stop_code(pid_t tid) {
  siginfo_t info{};
  if (ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) == 0) return info.si_code;
  if (errno == EINVAL) return 0;  // a group stop
  return std::nullopt;
}

pid_t wait_now(pid_t tid, int& status) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(tid), &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0)
    return -1;
  if (info.si_pid == 0) return 0;
  status = info.si_status << 8 | 0x7f;  // of a stop, as waitpid() gives it
  if (info.si_code == CLD_TRAPPED && is_signal(status)) return tid;
  return waitpid(tid, &status, __WALL | WNOHANG);
}

bool has_been_reaped(pid_t tid) {
  return read_status(tid).tracer != getpid() || reap(tid);
}

bool reap(pid_t tid) {
  // The kernel reports the stop of a tracee also to one who asks only for ends, so it is looked at first.
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(tid), &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0) return false;
  const bool ended = info.si_pid == tid &&
                     (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
  return ended && waitpid(tid, nullptr, __WALL | WNOHANG) == tid;
}

bool let_go(pid_t tid, int signal) {
  return ptrace(PTRACE_DETACH, tid, nullptr, signal) == 0 || errno != ESRCH;
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
  if (!done) running.insert(tid);
}

void stop_tracing_all() {
  std::erase_if(running, let_go_once_stopped);
}

bool read_registers(pid_t tid, arch::ThreadRegisters& registers) {
  iovec io{&registers, sizeof registers};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &io) == 0;
}

bool write_registers(pid_t tid, const arch::ThreadRegisters& registers) {
  arch::ThreadRegisters copy = registers;
  iovec io{&copy, sizeof copy};
  return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io) == 0;
}

void hide_interruption(pid_t tid) {
  arch::ThreadRegisters registers{};
  if (read_registers(tid, registers) && arch::hide_interruption(registers)) write_registers(tid, registers);
}

bool seize(pid_t tid) {
  return ptrace(PTRACE_SEIZE, tid, nullptr, kTraceOptions) == 0;
}

bool stop_in(pid_t tid, const TargetMemory& memory, std::span<const image::Range> code, bool may_return,
             std::chrono::milliseconds patience, arch::ThreadRegisters& registers) {
  const auto until = std::chrono::steady_clock::now() + patience;
  ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  for (int status = 0; std::chrono::steady_clock::now() < until; nap(20)) {
    const pid_t got = wait_now(tid, status);
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
    ptrace(PTRACE_CONT, tid, nullptr, is_signal(status) ? WSTOPSIG(status) : 0);
    nap(1000);
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
  }
  return false;
}

void nap(long microseconds) {
  timespec time{0, microseconds * 1000};
  nanosleep(&time, nullptr);
}

}  // namespace mdl::process
