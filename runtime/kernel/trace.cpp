#include <elf.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "base/nap.h"
#include "base/watchdog.h"
#include "runtime/kernel/direct.h"
#include "runtime/kernel/ends.h"

namespace mdl::kernel::direct {
namespace {

// Those that the C library does not name everywhere (linux/ptrace.h, which cannot be included with its
// header).
constexpr auto kGetMask = static_cast<__ptrace_request>(0x420a);      // PTRACE_GETSIGMASK
constexpr auto kSetMask = static_cast<__ptrace_request>(0x420b);      // PTRACE_SETSIGMASK
constexpr auto kGetFilter = static_cast<__ptrace_request>(0x420c);    // PTRACE_SECCOMP_GET_FILTER, Linux 4.4
constexpr auto kGetCall = static_cast<__ptrace_request>(0x420e);      // PTRACE_GET_SYSCALL_INFO, Linux 5.3
constexpr auto kGetRseq = static_cast<__ptrace_request>(0x420f);      // PTRACE_GET_RSEQ_CONFIGURATION
constexpr auto kGetDispatch = static_cast<__ptrace_request>(0x4211);  // of struct CallDispatch

// Nothing is set in a program that has just begun: it may have rights that the one before it had not.
bool has_executed(pid_t tid) {
  siginfo_t info{};
  return read_signal(tid, info) && info.si_code == kExecuted;
}

}  // namespace

// Waits for an execve of its process, which may wait for a file.
bool seize(pid_t tid) {
  const Watched watched;
  const Seizing seizing;
  if (ptrace(PTRACE_SEIZE, tid, nullptr, kTraceOptions) != 0) return false;
  expect_end(tid);
  return true;
}

bool interrupt(pid_t tid) {
  return ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0;
}

bool go_on(pid_t tid, int signal) {
  return ptrace(PTRACE_CONT, tid, nullptr, signal) == 0;
}

bool go_to_system_call(pid_t tid, int signal) {
  return ptrace(PTRACE_SYSCALL, tid, nullptr, signal) == 0;
}

bool detach(pid_t tid, int signal) {
  if (ptrace(PTRACE_DETACH, tid, nullptr, signal) != 0) return false;
  forget_end(tid);
  return true;
}

size_t read_registers(pid_t tid, std::span<std::byte> block) {
  iovec io{block.data(), block.size()};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &io) == 0 ? io.iov_len : 0;
}

bool write_registers(pid_t tid, std::span<const std::byte> block) {
  if (has_executed(tid)) return false;
  iovec io{const_cast<std::byte*>(block.data()), block.size()};  // the kernel only reads it
  return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io) == 0;
}

bool read_signal_mask(pid_t tid, uint64_t& mask) {
  return ptrace(kGetMask, tid, sizeof mask, &mask) == 0;
}

bool write_signal_mask(pid_t tid, uint64_t mask) {
  return !has_executed(tid) && ptrace(kSetMask, tid, sizeof mask, &mask) == 0;
}

bool read_signal(pid_t tid, siginfo_t& info) {
  return ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) == 0;
}

bool read_system_call(pid_t tid, __ptrace_syscall_info& call) {
  return ptrace(kGetCall, tid, sizeof call, &call) > 0;
}

bool read_restartable(pid_t tid, RestartableSequences& out) {
  return ptrace(kGetRseq, tid, sizeof out, &out) > 0;
}

bool read_dispatch(pid_t tid, CallDispatch& out) {
  return ptrace(kGetDispatch, tid, sizeof out, &out) == 0;
}

bool read_filter(pid_t tid, long number, std::vector<sock_filter>& out) {
  const long count = ptrace(kGetFilter, tid, number, nullptr);
  if (count <= 0) return false;
  out.resize(static_cast<size_t>(count));
  return ptrace(kGetFilter, tid, number, out.data()) == count;
}

bool look_at_event(pid_t tid, int kinds, siginfo_t& info) {
  return waitid(P_PID, static_cast<id_t>(tid), &info, kinds | WNOHANG | WNOWAIT | __WALL) == 0;
}

pid_t take_event(pid_t tid, int& status) {
  const pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
  if (got != 0 && (got < 0 || !WIFSTOPPED(status))) forget_end(tid);
  return got;
}

pid_t next_event(pid_t tid, std::chrono::microseconds patience, int& status) {
  constexpr int kQuick = 20;  // looks before the first sleep
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::min(patience, kMoment);
  siginfo_t info{};
  for (int looks = 1;; looks++) {
    if (!look_at_event(tid, WEXITED | WSTOPPED, info)) return -1;
    if (info.si_pid != 0) break;
    if (Clock::now() >= until) return 0;
    if (looks > kQuick) nap(20);
  }
  status = info.si_status << 8 | 0x7f;  // of a stop, as waitpid() gives it
  if (info.si_code == CLD_TRAPPED && is_signal(status)) return tid;
  return take_event(tid, status);
}

pid_t step(pid_t tid, bool to_signals, __ptrace_syscall_info& call, int& status) {
  siginfo_t info{};
  if (!read_signal(tid, info) || info.si_code == kExecuted) return -1;
  if (to_signals) interrupt(tid);
  const bool goes = to_signals ? go_on(tid, 0) : go_to_system_call(tid, 0);
  if (!goes && errno == ESRCH) return -1;
  const pid_t got = next_event(tid, kMoment, status);
  if (got > 0) read_system_call(tid, call);
  return got < 0 ? 0 : got;  // it is lost, which the next question about it says, too
}

}  // namespace mdl::kernel::direct
