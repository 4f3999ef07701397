#include "runtime/process/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>

#include "runtime/kernel/proc_file.h"

namespace mdl::process {
namespace {

constexpr uint64_t kShare = 8;  // of the room that a limit leaves, the instrumentation takes one part

// What the process has of this row of /proc/PID/status, in bytes.
std::optional<uint64_t> taken(pid_t pid, std::string_view row) {
  std::istringstream status(kernel::proc_text(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(row)) continue;
    std::istringstream rest(line.substr(row.size()));
    uint64_t kibibytes = 0;
    if (!(rest >> kibibytes)) return {};
    return kibibytes << 10;
  }
  return {};
}

}  // namespace

std::optional<uint64_t> soft_limit(pid_t pid, std::string_view row) {
  std::istringstream limits(kernel::proc_text(pid, "limits"));
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(row)) continue;
    std::istringstream rest(line.substr(row.size()));
    std::string soft;
    rest >> soft;
    uint64_t limit = 0;
    if (soft == "unlimited") return UINT64_MAX;
    const auto [end, problem] = std::from_chars(soft.data(), soft.data() + soft.size(), limit);
    if (problem != std::errc()) return {};
    return limit;
  }
  return {};
}

Result<void> check_space(pid_t pid, uint64_t mapped, uint64_t writable) {
  struct Space {
    std::string_view what, limit, taken, name, option;
    uint64_t needed;
  };
  for (const Space& space : {Space{"addresses", "Max address space", "VmSize:", "RLIMIT_AS", "as", mapped},
                             Space{"data", "Max data size", "VmData:", "RLIMIT_DATA", "data", writable}}) {
    const std::optional<uint64_t> limit = soft_limit(pid, space.limit);
    if (!limit) return Error{fmt::format("cannot read the limits of process {}", pid)};
    if (*limit == UINT64_MAX) continue;
    const std::optional<uint64_t> now = taken(pid, space.taken);
    if (!now) return Error{fmt::format("cannot read how much memory process {} has", pid)};
    const uint64_t left = *limit - std::min(*limit, *now);
    if (space.needed <= left / kShare) continue;
    return Error{fmt::format(
        "process {0} may take {1} KiB more {2} ({3}), and the instrumentation needs {4}, of which the "
        "program might run short: at most an eighth is taken; raise the limit with prlimit --pid {0} "
        "--{5}=BYTES, or "
        "ask for less",
        pid, left >> 10, space.what, space.name, space.needed >> 10, space.option)};
  }
  return {};
}

Result<void> check_mappings(pid_t pid, uint64_t has, uint64_t more) {
  const std::string text = kernel::system_text("/proc/sys/vm/max_map_count");
  uint64_t limit = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), limit).ec != std::errc()) return {};
  const uint64_t left = limit - std::min(limit, has);
  if (more <= left / kShare) return {};
  return Error{fmt::format(
      "process {} may have {} mappings more (vm.max_map_count), and the instrumentation needs {}, of which "
      "the program might run short: at most an eighth is taken; raise the limit with sysctl, or ask for less",
      pid, left, more)};
}

}  // namespace mdl::process
