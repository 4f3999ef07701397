// Tracing threads of another process: ptrace(2) and wait(2), one call each.
//
// A call that fails says so by its value, and errno says why. The meaning of a stop, and when a thread may be
// touched, is the matter of runtime/process/ (trace_stop.h, threads.h). Registers are blocks of bytes here.
//
// A broker looks at the rights of a thread when it is seized (rights.h), or of one of its process where several are, and
// of each when it stands; all other calls fail by themselves where the thread is not our tracee. Registers and masks it sets in no thread that stands behind an execve
// (process/threads.h, may_set()).
#pragma once

#include <linux/filter.h>
#include <sys/ptrace.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mdl::kernel {

// The stop of a thread behind its execve, as waitpid() (shifted by 8) and PTRACE_GETSIGINFO give it.
inline constexpr int kExecuted = SIGTRAP | PTRACE_EVENT_EXEC << 8;

// PTRACE_SEIZE. System-call stops are told from SIGTRAP, and an execve stops the thread behind it. The
// thread survives us.
bool seize(pid_t tid);
bool interrupt(pid_t tid);
// A stopped thread goes on, with a signal or 0: until something stops it; or also at the next entry to a
// system call, or exit from one; or without us.
bool go_on(pid_t tid, int signal);
bool go_to_system_call(pid_t tid, int signal);
bool detach(pid_t tid, int signal);
// A thread that stands, and not behind an execve, goes on to the next entry to a system call or exit from one, or
// with `to_signals` to where signals are handled; what comes of that within a moment is as of next_event(), and of
// read_system_call(). -1 when it does not stand so.
pid_t step(pid_t tid, bool to_signals, __ptrace_syscall_info& call, int& status);

// The general registers of a stopped thread, in the kernel's layout (NT_PRSTATUS). How many bytes they are, 0
// when they cannot be read; none of them is missing where `block` is larger.
size_t read_registers(pid_t tid, std::span<std::byte> block);
bool write_registers(pid_t tid, std::span<const std::byte> block);
bool read_signal_mask(pid_t tid, uint64_t& mask);
bool write_signal_mask(pid_t tid, uint64_t mask);
// The reason for its stop.
bool read_signal(pid_t tid, siginfo_t& info);
bool read_system_call(pid_t tid, __ptrace_syscall_info& call);

struct RestartableSequences {  // PTRACE_GET_RSEQ_CONFIGURATION; rseq(2)
  uint64_t area;
  uint32_t size, signature, flags, pad;
};
bool read_restartable(pid_t tid, RestartableSequences& out);

struct CallDispatch {  // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, Linux 6.4
  uint64_t mode, selector, offset, size;
};

// The seccomp filter with this number, 0 for the newest. ENOENT: there are no more.
bool read_filter(pid_t tid, long number, std::vector<sock_filter>& out);

// The event that a child or tracee has to tell (`kinds` as of waitid(2)), if there is one: info.si_pid is 0
// otherwise. It stays to be told.
bool look_at_event(pid_t tid, int kinds, siginfo_t& info);
// The same, and it is told; the thread, or 0 where there is nothing.
pid_t take_event(pid_t tid, int& status);
// A PTRACE_EVENT_STOP is ours or a group stop and carries nothing; anything else with no event, and no system
// call's, is a signal on its way.
inline bool is_signal(int status) {
  return status >> 16 == 0 && (status >> 8 & 0xff) != (SIGTRAP | 0x80);
}
// The same as take_event(), but for a stop at a signal, which is only looked at: the kernel delivers the signal of such
// a stop when the tracer is killed, and forgets one of which the tracer has been told (wait_task_stopped() clears the
// code that ptrace_signal() goes on with). Where there is nothing yet, it is waited for, for no longer than kMoment.
inline constexpr std::chrono::microseconds kMoment{1000};
pid_t next_event(pid_t tid, std::chrono::microseconds patience, int& status);

// Each of the calls above for many threads, in their order, and what came of it for each. While threads stand, one
// question to a broker takes as long as the calls of ten.
template <typename R>
struct Outcome {
  R value{};
  int error = 0;  // of errno(3)
};
std::vector<Outcome<bool>> seize_each(std::span<const pid_t> tids);
void interrupt_each(std::span<const pid_t> tids);
std::vector<Outcome<pid_t>> next_events(std::span<const pid_t> tids,
                                        std::vector<int>& statuses);  // no patience
std::vector<Outcome<bool>> read_signals(std::span<const pid_t> tids, std::vector<siginfo_t>& infos);
// Into `blocks` of one size, one behind the other.
std::vector<Outcome<size_t>> read_registers_each(std::span<const pid_t> tids, std::span<std::byte> blocks);
std::vector<Outcome<bool>> read_dispatch_each(std::span<const pid_t> tids, std::vector<CallDispatch>& out);
std::vector<Outcome<bool>> detach_each(std::span<const pid_t> tids, std::span<const int> signals);

}  // namespace mdl::kernel
