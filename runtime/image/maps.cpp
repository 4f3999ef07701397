// /proc/PID/maps, whose lines are (proc(5))
//
//     start-end perms offset major:minor inode      path
//
// A path may hold spaces, a newline is written as \012 by the kernel, and " (deleted)" is
// appended to the name of an unlinked file.
#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "runtime/image/image.h"
#include "runtime/kernel/proc_file.h"

namespace mdl::image {
namespace {

// Takes a number up to `end_mark`, and the mark, off the front of the text.
bool take(std::string_view& text, uint64_t& value, int base, char end_mark) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data() + text.size() || *end != end_mark) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
  return true;
}

bool parse_line(std::string_view line, Mapping& mapping) {
  if (!take(line, mapping.start, 16, '-') || !take(line, mapping.end, 16, ' ')) return false;
  if (mapping.start >= mapping.end || line.size() < 5 || line[4] != ' ') return false;
  mapping.read = line[0] == 'r';
  mapping.write = line[1] == 'w';
  mapping.execute = line[2] == 'x';
  mapping.shared = line[3] == 's';
  line.remove_prefix(5);
  uint64_t major_number = 0, minor_number = 0;
  if (!take(line, mapping.offset, 16, ' ') || !take(line, major_number, 16, ':') ||
      !take(line, minor_number, 16, ' '))
    return false;
  mapping.device = makedev(static_cast<unsigned>(major_number), static_cast<unsigned>(minor_number));
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), mapping.inode, 10);
  if (error != std::errc()) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.path = line;
  return true;
}

std::string why_unreadable(pid_t pid, int error) {
  if (error == ENOENT || error == ESRCH)
    return fmt::format("there is no process {}: check the pid, it may have ended", pid);
  if (error == EFBIG)
    return fmt::format(
        "the list of mappings of process {} (/proc/{}/maps) has more than {} MB: the paths in it are longer "
        "than "
        "those of any real program",
        pid, pid, kernel::kMostMaps >> 20);
  return fmt::format(
      "cannot read /proc/{}/maps: {}; the process must belong to the user who runs this, or run this as root "
      "(CAP_SYS_PTRACE)",
      pid, std::strerror(error));
}

}  // namespace

Result<std::vector<Mapping>> parse_maps(std::string_view text) {
  std::vector<Mapping> mappings;
  mappings.reserve(static_cast<size_t>(std::ranges::count(text, '\n')));  // tens of thousands, in a stop
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    Mapping mapping;
    if (!parse_line(line, mapping))
      return Error{fmt::format("a line of /proc/PID/maps is not understood: \"{}\"", line)};
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

Result<std::vector<Mapping>> read_maps(pid_t pid) {
  std::string text;
  if (const int failed = kernel::read_proc(kernel::live_thread(pid), "maps", text); failed != 0)
    return Error{why_unreadable(pid, failed)};
  if (text.empty())
    return Error{fmt::format("process {} has no memory: it is a kernel thread or has ended", pid)};
  return parse_maps(text);
}

const Mapping* mapping_at(std::span<const Mapping> mappings, uint64_t address) {
  auto it = std::upper_bound(mappings.begin(), mappings.end(), address,
                             [](uint64_t a, const Mapping& m) { return a < m.end; });
  return it != mappings.end() && it->start <= address ? &*it : nullptr;
}

}  // namespace mdl::image
