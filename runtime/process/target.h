// Is this process one that we may and can instrument? Everything here is read from /proc
// before anything is touched, so that a refusal leaves no trace; the functions that decide
// take text, so that they can be tested on recorded files of machines that are not at hand.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mdl::process {

// The fields of /proc/PID/status that matter here.
struct ProcessStatus {
  std::string name;
  char state = '?';
  pid_t tracer = 0;
  uid_t uid = 0;
  int seccomp = 0;  // 0 none, 1 strict, 2 filter
  bool has_pid = false;
  bool has_memory = false;    // a kernel thread has none, nor has what has ended
  bool locks_memory = false;  // some of it now, and maybe all that it will map (mlockall(2), MCL_FUTURE)
  pid_t group = 0;            // the process, when this is a thread
  pid_t parent = 0;
  pid_t inner_pid = 0;  // as the process itself sees it, in its own pid namespace
};
ProcessStatus parse_status(std::string_view text);
ProcessStatus read_status(pid_t pid);

// The error of a failed attach: names the setting that forbids it and the remedy (permission.h).
Error permission_error(pid_t pid);

// Checks a process before anything else: it exists, is not ourselves or a kernel thread,
// is of our architecture, is not traced (but to look at it, it may be), and we may read its memory. Another
// mdl-inject that has it stopped is waited for, for five seconds.
enum class Purpose { attach, look };
Result<ProcessStatus> check_target(pid_t pid, Purpose purpose = Purpose::attach);

// The name that an mdl-inject shows in /proc. Everybody can take it: it says that a process is worth waiting
// for, until a deadline.
inline constexpr std::string_view kInjectorName = "mdl-inject";
bool is_injector(pid_t pid);

// The threads of a process that are alive now (/proc/PID/task), zombies left out unless it does not matter, the first
// thread last.
std::vector<pid_t> live_threads(pid_t pid, bool also_ended = false);

// True when none of its threads has memory any more: it has ended, or is about to be a zombie. A kernel
// thread never had any.
bool has_ended(pid_t pid);

// Whether something has failed with a process because it ends. Waits for the end of one that does.
bool ends_now(pid_t pid);

// True while the thread waits for the child of a vfork (or posix_spawn): nothing can stop it then.
bool awaits_vfork(pid_t tid);

// False when the thread has ended or waits to be reaped.
bool is_alive_thread(pid_t tid);

// True when both threads run in the same memory: of one process, or by clone with CLONE_VM, or vfork.
bool shares_memory(pid_t tid, pid_t other);

// Other processes that run in the same memory without being threads of it:
// they execute the code that is patched, so they are stopped with it.
// `only_new`: of those that have begun since it was last asked for this process, if that was the last one: it takes
// some microseconds for each process of the machine to compare it, and who shares memory has done so from the beginning.
std::vector<pid_t> memory_sharers(pid_t pid, bool only_new);

// True when the process that had this pid and start time still runs.
bool is_running(pid_t pid, uint64_t start);

// The same of one whose id is that of another pid namespace: here it has another id, if it is seen from here.
bool is_running_inside(pid_t inner_pid, uint64_t start);

// The number of the pid namespace of this process, and whether it is that of the system, which shows all processes.
uint64_t pid_namespace();
bool sees_all_processes();

// The file of its program; "" when the kernel does not say.
std::string program_of(pid_t pid);

// The time at which the process started, in clock ticks after boot: with the pid, its identity. It is the same for
// whoever asks: mdl-inject in another time namespace must know one at work from one that has ended.
uint64_t start_time(pid_t pid);

// Where the stack of the process's first thread was when the program began: 0 when the kernel does not say.
uint64_t stack_start(pid_t pid);

}  // namespace mdl::process
