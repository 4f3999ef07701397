// How much memory a process may still take: when its control group (cgroups(7), version 1 or 2: a
// container's) has none left, the kernel kills somebody in it, and that may be the process itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mdl::process {

struct MemoryGroup {
  std::string folder;
  bool unified = false;  // version 2
};

// The group of a process and those around it that can be seen here. `groups`: as in /proc/PID/cgroup;
// `mounts`: as in /proc/self/mountinfo.
std::vector<MemoryGroup> memory_groups(std::string_view groups, std::string_view mounts);
// The bytes that may be added before somebody is killed; caches of files make room. Nothing when there is no
// limit.
std::optional<uint64_t> room_in(const MemoryGroup& group);

// An error when `bytes` more are too much for one of its groups.
Result<void> check_memory(pid_t pid, uint64_t bytes);

}  // namespace mdl::process
