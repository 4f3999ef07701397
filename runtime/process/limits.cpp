#include "runtime/process/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <utility>

#include "runtime/kernel/proc_file.h"

namespace mdl::process {
namespace {

constexpr uint64_t kShare = 8;  // of the room that a limit leaves, the instrumentation takes one part

// What a row of this text has, in bytes.
std::optional<uint64_t> bytes_of_row(std::string_view text, std::string_view row) {
  std::istringstream rows{std::string(text)};
  for (std::string line; std::getline(rows, line);) {
    if (!line.starts_with(row)) continue;
    std::istringstream rest(line.substr(row.size()));
    uint64_t kibibytes = 0;
    if (!(rest >> kibibytes)) return {};
    return kibibytes << 10;
  }
  return {};
}

uint64_t left_to_commit() {
  return process::left_to_commit(kernel::system_text("/proc/sys/vm/overcommit_memory"),
                                 kernel::system_text("/proc/meminfo"));
}

Result<void> check_commit(uint64_t writable) {
  const uint64_t left = left_to_commit();
  if (writable <= left / kShare) return {};
  return Error{fmt::format(
      "the machine promises {} KiB more memory (vm.overcommit_memory=2), and the instrumentation needs {}, "
      "of which its programs might run short: at most an eighth is taken; raise vm.overcommit_ratio with "
      "sysctl, or ask for less",
      left >> 10, writable >> 10)};
}

// A limit of what a process may have, and the row of its status that says what it has.
struct Space {
  std::string_view what, limit, taken, name, option;
};
constexpr Space kAddresses{"addresses", "Max address space", "VmSize:", "RLIMIT_AS", "as"};
constexpr Space kData{"data", "Max data size", "VmData:", "RLIMIT_DATA", "data"};

// What it leaves, UINT64_MAX where there is none.
Result<uint64_t> left_of(pid_t pid, const Space& space) {
  const std::optional<uint64_t> limit = soft_limit(pid, space.limit);
  if (!limit) return Error{fmt::format("cannot read the limits of process {}", pid)};
  if (*limit == UINT64_MAX) return *limit;
  const std::optional<uint64_t> now = bytes_of_row(kernel::proc_text(pid, "status"), space.taken);
  if (!now) return Error{fmt::format("cannot read how much memory process {} has", pid)};
  return *limit - std::min(*limit, *now);
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
  for (const auto& [space, needed] : {std::pair(kAddresses, mapped), std::pair(kData, writable)}) {
    const auto left = left_of(pid, space);
    if (!left) return left.error();
    if (*left == UINT64_MAX || needed <= *left / kShare) continue;
    return Error{fmt::format(
        "process {0} may take {1} KiB more {2} ({3}), and the instrumentation needs {4}, of which the "
        "program might run short: at most an eighth is taken; raise the limit with prlimit --pid {0} "
        "--{5}=BYTES, or "
        "ask for less",
        pid, *left >> 10, space.what, space.name, needed >> 10, space.option)};
  }
  return check_commit(writable);
}

uint64_t space_left(pid_t pid) {
  uint64_t least = left_to_commit();
  for (const Space& space : {kAddresses, kData})
    if (const auto left = left_of(pid, space)) least = std::min(least, *left);
  return least == UINT64_MAX ? least : least / kShare;
}

uint64_t left_to_commit(std::string_view setting, std::string_view meminfo) {
  if (!setting.starts_with('2')) return UINT64_MAX;
  const std::optional<uint64_t> limit = bytes_of_row(meminfo, "CommitLimit:");
  const std::optional<uint64_t> promised = bytes_of_row(meminfo, "Committed_AS:");
  return limit && promised ? *limit - std::min(*limit, *promised) : 0;
}

bool has_plenty(pid_t pid, uint64_t bytes) {
  const std::optional<uint64_t> file = soft_limit(pid, "Max file size");
  const std::optional<uint64_t> locked = bytes_of_row(kernel::proc_text(pid, "status"), "VmLck:");
  return file && *file >= bytes && locked == 0 && check_space(pid, bytes, bytes).operator bool();
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
