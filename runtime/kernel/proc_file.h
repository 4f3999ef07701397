// What /proc shows of other processes: bytes, links and descriptors. Who reads the bytes parses them.
//
// A name is a path below /proc/PID ("maps", "task/12/stat"). An id may be a thread's: /proc shows threads
// by their own ids, too, though it does not list them. What cannot be read is empty, or -1; a process may
// end at any moment, and that is no exception.
//
// A broker has to check the id, and that the name is one of those that are asked for: maps, stat, status,
// auxv, exe, limits, cgroup, syscall, comm, root, attr/current, ns/user, schedstat, io, task; and as
// descriptors exe, map_files/START-END, and files below root, cwd and fd. Descriptors are for reading only.
// Its own credentials and namespaces are then those that count (/proc/self in process/permission.cpp,
// exec_watch.cpp, target.cpp).
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace mdl::kernel {

// Instead of an id: who makes these calls.
inline constexpr pid_t kSelf = 0;

std::string proc_text(pid_t pid, std::string_view name);
// Appends it to `out`; 0, or the errno of what failed.
int read_proc(pid_t pid, std::string_view name, std::string& out);
std::string proc_link(pid_t pid, std::string_view name);
bool stat_proc(pid_t pid, std::string_view name, struct stat& out);
// A descriptor, or -1 and errno. `more`: flags of open(2) for a file that may be no regular one.
int open_proc(pid_t pid, std::string_view name, int more = 0);

// All of the system, and the threads of one of them, in no order.
std::vector<pid_t> processes();
std::vector<pid_t> threads_of(pid_t pid);

// The process itself, or, when its first thread has ended before the others, one that lives: /proc and
// process_vm_readv show a process's memory only through a living thread.
pid_t live_thread(pid_t pid);

}  // namespace mdl::kernel
