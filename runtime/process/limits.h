// Limits of a process (getrlimit(2)), from /proc/PID/limits: prlimit(2) on another user's wants
// CAP_SYS_RESOURCE, which even root may lack in a container.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace mdl::process {

// The soft one of a row ("Max file size"); UINT64_MAX when there is none. Nothing when it cannot be read.
std::optional<uint64_t> soft_limit(pid_t pid, std::string_view row);

}  // namespace mdl::process
