// Other processes, as /proc shows them: bytes, links and descriptors. The readers of the bytes parse them.
//
// A name is a path below /proc/PID ("maps", "task/12/stat"). An id may be a thread's: /proc shows threads
// by their own ids, too, though it does not list them. Anything that cannot be read is empty, or -1; a
// process may end at any moment, and that is no exception.
//
// A broker shows stat, status and comm of everybody, as /proc does, and the rest of its family (rights.h).
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace mdl::kernel {

std::string proc_text(pid_t pid, std::string_view name);
// Of maps. The kernel allows 64,000 lines, each with a path of up to 4,096 letters: a process can have 260 MB of them,
// which take seconds each time. Those of real programs have some megabytes at most.
inline constexpr size_t kMostMaps = 32 << 20;

// Appends it to `out`; 0, or the errno of what failed; EFBIG for longer maps.
int read_proc(pid_t pid, std::string_view name, std::string& out);
std::string proc_link(pid_t pid, std::string_view name);
bool stat_proc(pid_t pid, std::string_view name, struct stat& out);
// A descriptor for reading, or -1 and errno: of a file of /proc itself, or of exe.
int open_proc(pid_t pid, std::string_view name);

// A regular file for reading, by its path in the process's root; -1 and errno, EACCES where it is no regular file.
// Links lead where they lead the process, none of /proc is followed, and where the kernel cannot do that
// (before Linux 5.6) none is at all. Nothing is opened before it is known to be a regular file: a device acts
// when it is opened.
int open_below_root(pid_t pid, std::string_view path);
// The same of a name below /proc/PID.
int open_regular(pid_t pid, std::string_view name);

// The same for the process that makes these calls: its rights and namespaces are those that count.
std::string own_text(std::string_view name);
std::string own_link(std::string_view name);
bool stat_own(std::string_view name, struct stat& out);

// What everybody may read of the system: a path below /proc/sys, /sys, /proc/meminfo, or a control group's file.
std::string system_text(std::string_view path);

// In no order: all of the system; the threads of one of them, without those that have ended or, which
// takes a look at each less, with them; and the processes of the system that
// run in the same memory as the thread, its own among them; `only_new`: of those that were not there when this was
// asked last, if it was for the same thread.
std::vector<pid_t> processes();
std::vector<pid_t> threads_of(pid_t pid, bool also_ended = false);
std::vector<pid_t> sharers_of(pid_t tid, bool only_new);

// The process itself, or, when its first thread has ended before the others, one that lives: /proc and
// process_vm_readv show a process's memory only through a living thread.
pid_t live_thread(pid_t pid);

}  // namespace mdl::kernel
