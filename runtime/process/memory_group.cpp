#include "runtime/process/memory_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "runtime/kernel/proc_file.h"

namespace mdl::process {
namespace {

std::vector<std::string> parts_of(std::string_view text, char at) {
  std::vector<std::string> out;
  std::istringstream in{std::string(text)};
  for (std::string part; std::getline(in, part, at);) out.push_back(part);
  return out;
}

bool names_memory(std::string_view controllers) {
  const std::vector<std::string> all = parts_of(controllers, ',');
  return std::ranges::find(all, "memory") != all.end();
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t out = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (problem != std::errc()) return {};
  return out;
}

// The value of this name among lines "name value".
uint64_t value_of(const std::string& text, std::string_view name) {
  for (const std::string& line : parts_of(text, '\n'))
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return whole_number(std::string_view(line).substr(name.size() + 1)).value_or(0);
  return 0;
}

// Where a hierarchy is mounted, and which of its groups is there.
struct Mount {
  std::string root, folder;
  bool unified = false;
};

std::optional<Mount> mount_of(const std::string& line) {
  const size_t dash = line.find(" - ");
  if (dash == std::string::npos) return {};
  const std::vector<std::string> own = parts_of(line.substr(0, dash), ' '),
                                 kind = parts_of(line.substr(dash + 3), ' ');
  if (own.size() < 5 || kind.size() < 3) return {};
  const bool unified = kind[0] == "cgroup2";
  if (!unified && !(kind[0] == "cgroup" && names_memory(kind[2]))) return {};
  return Mount{own[3] == "/" ? "" : own[3], own[4], unified};
}

}  // namespace

std::vector<MemoryGroup> memory_groups(std::string_view groups, std::string_view mounts) {
  std::vector<MemoryGroup> out;
  for (const std::string& line : parts_of(groups, '\n')) {  // hierarchy:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (!controllers.empty() && !names_memory(controllers)) continue;
    for (const std::string& one : parts_of(mounts, '\n')) {
      const std::optional<Mount> mount = mount_of(one);
      if (!mount || mount->unified != controllers.empty() || !(path + "/").starts_with(mount->root + "/") ||
          path.starts_with("/.."))
        continue;
      std::string below = path.substr(mount->root.size());
      while (below.ends_with('/')) below.pop_back();
      for (; !below.empty(); below.resize(below.rfind('/')))
        out.push_back({mount->folder + below, mount->unified});
      out.push_back({mount->folder, mount->unified});
      break;
    }
  }
  return out;
}

std::optional<uint64_t> room_in(const MemoryGroup& group) {
  const auto text = [&](const char* one, const char* two) {
    return kernel::system_text(fmt::format("{}/{}", group.folder, group.unified ? two : one));
  };
  const std::optional<uint64_t> limit = whole_number(text("memory.limit_in_bytes", "memory.max"));
  const std::optional<uint64_t> used = whole_number(text("memory.usage_in_bytes", "memory.current"));
  if (!limit || !used) return {};
  const std::string known = kernel::system_text(group.folder + "/memory.stat");
  const std::string_view prefix = group.unified ? "" : "total_";
  const uint64_t caches = value_of(known, fmt::format("{}inactive_file", prefix)) +
                          value_of(known, fmt::format("{}active_file", prefix));
  const uint64_t needed = *used - std::min(*used, caches);
  return *limit - std::min(*limit, needed);
}

Result<void> check_memory(pid_t pid, uint64_t bytes) {
  for (const MemoryGroup& group :
       memory_groups(kernel::proc_text(pid, "cgroup"), kernel::own_text("mountinfo")))
    if (const std::optional<uint64_t> room = room_in(group); room && *room < bytes)
      return Error{fmt::format(
          "process {} may take {} KiB more memory, the limit of its control group {}, and the "
          "instrumentation needs about {}: the kernel would kill it; raise the limit ({}), or ask for less",
          pid, *room >> 10, group.folder, bytes >> 10,
          group.unified ? "memory.max" : "memory.limit_in_bytes")};
  return {};
}

}  // namespace mdl::process
