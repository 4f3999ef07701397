// Limits of a process (getrlimit(2)), from /proc/PID/limits: prlimit(2) on another user's wants
// CAP_SYS_RESOURCE, which even root may lack in a container.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace mdl::process {

// The soft one of a row ("Max file size"); UINT64_MAX when there is none. Nothing when it cannot be read.
std::optional<uint64_t> soft_limit(pid_t pid, std::string_view row);

// Whether the process may map this many bytes more, of which `writable` are private data, and still has room
// of its own. The kernel asks the first question only: past a limit it is the program whose malloc fails.
// Where the kernel promises no more memory than it has (vm.overcommit_memory=2), that is such a limit, too.
Result<void> check_space(pid_t pid, uint64_t mapped, uint64_t writable);
// How many bytes that would be at most; UINT64_MAX where there is no limit.
uint64_t space_left(pid_t pid);
// Bytes that may still be promised, by the texts of that setting and of /proc/meminfo; UINT64_MAX: there is no limit.
uint64_t left_to_commit(std::string_view setting, std::string_view meminfo);

// Whether so many bytes more, which may be left out, come near none of these limits, nor that of files (a memfd is one);
// a process that locks what it maps has none to spare.
bool has_plenty(pid_t pid, uint64_t bytes);

// The same of the number of mappings, of which the process has some already. The limit is the machine's.
Result<void> check_mappings(pid_t pid, uint64_t has, uint64_t more);

}  // namespace mdl::process
