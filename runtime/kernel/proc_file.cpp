#include "runtime/kernel/proc_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "base/read_text.h"

namespace mdl::kernel {
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

bool has_memory(pid_t pid, std::string_view maps) {
  const int file = open_proc(pid, maps);
  char byte;
  const bool readable = file >= 0 && read(file, &byte, 1) == 1;
  if (file >= 0) close(file);
  return readable;
}

}  // namespace

std::string proc_text(pid_t pid, std::string_view name) {
  return read_text(path_of(pid, name));
}

int read_proc(pid_t pid, std::string_view name, std::string& out) {
  return read_text(path_of(pid, name), out);
}

std::string proc_link(pid_t pid, std::string_view name) {
  return link_at(path_of(pid, name));
}

bool stat_proc(pid_t pid, std::string_view name, struct stat& out) {
  return stat(path_of(pid, name).c_str(), &out) == 0;
}

int open_proc(pid_t pid, std::string_view name, int more) {
  return open(path_of(pid, name).c_str(), O_RDONLY | O_CLOEXEC | more);
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

std::vector<pid_t> processes() {
  return ids_in("/proc");
}

std::vector<pid_t> threads_of(pid_t pid) {
  return ids_in(path_of(pid, "task"));
}

pid_t live_thread(pid_t pid) {
  if (has_memory(pid, "maps")) return pid;
  for (pid_t tid : threads_of(pid))
    if (has_memory(pid, "task/" + std::to_string(tid) + "/maps")) return tid;
  return pid;
}

}  // namespace mdl::kernel
