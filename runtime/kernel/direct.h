// The calls themselves, made by this process. Each means what its namesake in edit.h, handle.h, memory.h,
// proc_file.h, start.h or trace.h says; those ask the broker for it where there is one (broker.h).
#pragma once

#include <sys/ioctl.h>

#include "runtime/kernel/edit.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/lock_file.h"
#include "runtime/kernel/memory.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/kernel/start.h"
#include "runtime/kernel/trace.h"

namespace mdl::kernel::direct {

// TRACESYSGOOD asks for no stop by itself. EXITKILL is not among them: the process must survive us.
inline constexpr long kTraceOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;

// struct pidfd_info and its ioctl, linux/pidfd.h of Linux 6.15.
struct PidfdInfo {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
inline constexpr unsigned long kPidfdInfo = _IOWR(0xff, 11, PidfdInfo);

// A descriptor, or -1 and errno. One that a broker has opened is handed over.
struct Opened {
  int file = -1;
  bool operator==(const Opened&) const = default;
};

bool seize(pid_t tid);
bool interrupt(pid_t tid);
bool go_on(pid_t tid, int signal);
bool go_to_system_call(pid_t tid, int signal);
bool detach(pid_t tid, int signal);
size_t read_registers(pid_t tid, std::span<std::byte> block);
bool write_registers(pid_t tid, std::span<const std::byte> block);
bool read_signal_mask(pid_t tid, uint64_t& mask);
bool write_signal_mask(pid_t tid, uint64_t mask);
bool read_signal(pid_t tid, siginfo_t& info);
bool read_system_call(pid_t tid, __ptrace_syscall_info& call);
bool read_restartable(pid_t tid, RestartableSequences& out);
bool read_dispatch(pid_t tid, CallDispatch& out);
bool read_filter(pid_t tid, long number, std::vector<sock_filter>& out);
bool look_at_event(pid_t tid, int kinds, siginfo_t& info);
pid_t take_event(pid_t tid, int& status);
pid_t next_event(pid_t tid, std::chrono::microseconds patience, int& status);
pid_t step(pid_t tid, bool to_signals, __ptrace_syscall_info& call, int& status);

Opened open_handle(pid_t pid);
bool stop_again(pid_t process, pid_t tid);
bool hurry(pid_t tid, bool on);
extern const int usual_nice;  // of a thread that is not in a hurry
pid_t own_id();

Started start_program(std::string_view words, std::string_view folder);
bool let_program_go();
bool end_program();
bool end_program_with_us();

Opened open_memory(pid_t tid);
uint32_t open_writer(pid_t tid);
bool duplicate_writer(uint32_t writer);
bool close_writer(uint32_t writer);
bool read_writer(uint32_t writer, uint64_t address, std::span<std::byte> into);
bool overwrite(uint32_t writer, uint64_t address, std::span<const std::byte> bytes);
Edited apply_edits(uint32_t writer, std::span<const Edit> edits, bool only_look);
bool read_memory_of(pid_t tid, uint64_t address, std::span<std::byte> into);
std::optional<bool> compare_memory(pid_t tid, pid_t other);

std::string proc_text(pid_t pid, std::string_view name);
std::string proc_link(pid_t pid, std::string_view name);
bool stat_proc(pid_t pid, std::string_view name, struct stat& out);
Opened open_proc(pid_t pid, std::string_view name);
Opened open_regular(pid_t pid, std::string_view name);
Opened open_below_root(pid_t pid, std::string_view path);
std::string own_text(std::string_view name);
std::string own_link(std::string_view name);
bool stat_own(std::string_view name, struct stat& out);
std::string system_text(std::string_view path);
std::vector<pid_t> processes();
std::vector<pid_t> threads_of(pid_t pid, bool also_ended);
std::vector<pid_t> sharers_of(pid_t tid, bool only_new);
pid_t live_thread(pid_t pid);

Opened lock_file(std::string_view name, int operation, std::string_view text);
Opened look_at_lock_file(std::string_view name);
bool remove_lock_file(std::string_view name);

Opened publish(std::string_view text, std::string& problem);
bool log(pid_t process, std::string_view action, std::string_view text, std::string& problem);
std::string break_lock(pid_t pid, std::string& problem);
std::vector<pid_t> newcomers(std::string& refused);

}  // namespace mdl::kernel::direct
