#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "base/proc_text.h"
#include "base/read_text.h"
#include "runtime/kernel/direct.h"

namespace mdl::kernel::direct {
namespace {

constexpr const char* kSelf = "self";

std::string path_of(const std::string& whose, std::string_view name) {
  return "/proc/" + whose + "/" + std::string(name);
}
std::string path_of(pid_t pid, std::string_view name) {
  return path_of(std::to_string(pid), name);
}

std::string link_at(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), text, sizeof text);
  return size < 0 ? std::string() : std::string(text, static_cast<size_t>(size));
}

// The numbers among the names in a folder.
std::vector<pid_t> ids_in(const std::string& folder) {
  std::vector<pid_t> out;
  DIR* directory = opendir(folder.c_str());
  if (!directory) return out;
  while (const dirent* entry = readdir(directory))
    if (const int id = std::atoi(entry->d_name); id > 0) out.push_back(id);
  closedir(directory);
  return out;
}

// The file of a path whose parts are no links, with O_PATH.
int walk(int root, const std::string& path) {
  int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
  for (size_t begin = 0; at >= 0 && begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    struct stat status {};
    // A link that is opened with these flags is the link itself.
    int next = part == ".." ? -1 : openat(at, part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    const bool is_link =
        part == ".." || (next >= 0 && (fstat(next, &status) != 0 || S_ISLNK(status.st_mode)));
    int failed = errno;
    if (next >= 0 && is_link) close(next), next = -1;
    if (is_link) failed = ELOOP;
    close(std::exchange(at, next));
    errno = failed;
  }
  return at;
}

int open_for(pid_t pid, std::string_view name, int how) {
  return open(path_of(pid, name).c_str(), how | O_CLOEXEC);
}

bool has_memory(pid_t pid, std::string_view maps) {
  const int file = open_for(pid, maps, O_RDONLY);
  char byte;
  const bool readable = file >= 0 && read(file, &byte, 1) == 1;
  if (file >= 0) close(file);
  return readable;
}

}  // namespace

std::string proc_text(pid_t pid, std::string_view name) {
  return read_text(path_of(pid, name));
}

std::string proc_link(pid_t pid, std::string_view name) {
  return link_at(path_of(pid, name));
}

bool stat_proc(pid_t pid, std::string_view name, struct stat& out) {
  return stat(path_of(pid, name).c_str(), &out) == 0;
}

Opened open_proc(pid_t pid, std::string_view name) {
  return {open_for(pid, name, O_RDONLY)};
}

namespace {

// Of a descriptor with O_PATH, which it takes; or of -1.
Opened open_if_regular(int path_descriptor) {
  if (path_descriptor < 0) return {};
  struct stat status {};
  int file = -1, failed = EACCES;
  if (fstat(path_descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    file = open(path_of(kSelf, "fd/" + std::to_string(path_descriptor)).c_str(),
                O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    failed = errno;
  }
  close(path_descriptor);
  errno = failed;
  return {file};
}

}  // namespace

Opened open_regular(pid_t pid, std::string_view name) {
  return open_if_regular(open_for(pid, name, O_PATH));
}

Opened open_below_root(pid_t pid, std::string_view path) {
  const int root = open_for(pid, "root", O_PATH | O_DIRECTORY);
  if (root < 0) return {};
  const std::string name(path.substr(std::min(path.find_first_not_of('/'), path.size())));
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  int found = static_cast<int>(syscall(SYS_openat2, root, name.c_str(), &how, sizeof how));
  if (found < 0 && (errno == ENOSYS || errno == EPERM))
    found = walk(root, name);  // EPERM: an old container's filter
  const int failed = errno;
  close(root);
  errno = failed;
  return open_if_regular(found);
}

std::string own_text(std::string_view name) {
  return read_text(path_of(kSelf, name));
}

std::string own_link(std::string_view name) {
  return link_at(path_of(kSelf, name));
}

bool stat_own(std::string_view name, struct stat& out) {
  return stat(path_of(kSelf, name).c_str(), &out) == 0;
}

std::string system_text(std::string_view path) {
  return read_text(std::string(path));
}

std::vector<pid_t> processes() {
  return ids_in("/proc");
}

std::vector<pid_t> threads_of(pid_t pid, bool also_ended) {
  std::vector<pid_t> out = ids_in(path_of(pid, "task"));
  std::erase_if(out, [&](pid_t tid) {
    return !also_ended && !stat_is_alive(proc_text(pid, "task/" + std::to_string(tid) + "/stat"));
  });
  return out;
}

std::vector<pid_t> sharers_of(pid_t tid, bool only_new) {
  static std::pair<pid_t, std::vector<pid_t>> last;
  std::vector<pid_t> out, all = processes();
  std::ranges::sort(all);
  const bool knows = only_new && last.first == tid;
  std::ranges::set_difference(all, knows ? last.second : std::vector<pid_t>(), std::back_inserter(out));
  last = {tid, std::move(all)};
  std::erase_if(out, [tid](pid_t other) { return compare_memory(tid, other) != true; });
  return out;
}

pid_t live_thread(pid_t pid) {
  if (has_memory(pid, "maps")) return pid;
  for (pid_t tid : ids_in(path_of(pid, "task")))
    if (has_memory(pid, "task/" + std::to_string(tid) + "/maps")) return tid;
  return pid;
}

}  // namespace mdl::kernel::direct
