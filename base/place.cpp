#include "base/place.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace mdl {
namespace {

constexpr int kMostLinks = 40;  // as the kernel's

Error failed(const std::string& path, int number) {
  return {fmt::format("cannot open {}: {}", path, std::strerror(number))};
}

bool is_ours(const struct stat& status) {
  return status.st_uid == 0 || status.st_uid == geteuid();
}

// /proc's lead to open files, whose names are none.
bool is_in_proc(const std::string& folder) {
  struct statfs system {};
  return statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

std::string link_at(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), text, sizeof text);
  return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
}

// The first part of a path, taken off it.
std::string take_part(std::string& rest) {
  rest.erase(0, rest.find_first_not_of('/'));
  const size_t end = std::min(rest.find('/'), rest.size());
  std::string part = rest.substr(0, end);
  rest.erase(0, end);
  rest.erase(0, std::min(rest.find_first_not_of('/'), rest.size()));
  return part;
}

}  // namespace

Result<Place> place_of(const std::string& path) {
  std::string folder = path.starts_with('/') ? "/" : ".", rest = path;
  for (int links = 0; !rest.empty();) {
    const std::string part = take_part(rest);
    if (part.empty()) break;
    const std::string here = folder + "/" + part;
    struct stat status {};
    if (lstat(here.c_str(), &status) != 0) {
      if (errno == ENOENT && rest.empty()) return Place{folder, part, ""};
      return failed(path, errno);
    }
    if (S_ISLNK(status.st_mode)) {
      if (!is_ours(status))
        return Error{
            fmt::format("{} leads through {}, a symbolic link of another user ({}): name the file itself",
                        path, here, status.st_uid)};
      if (is_in_proc(folder)) return Place{"", "", rest.empty() ? here : here + "/" + rest};
      const std::string to = link_at(here);
      if (to.empty() || ++links > kMostLinks) return failed(path, ELOOP);
      rest = rest.empty() ? to : to + "/" + rest;
      if (to.starts_with('/')) folder = "/";
    } else if (!rest.empty()) {
      folder = here;
    } else {
      if (S_ISDIR(status.st_mode)) return failed(path, EISDIR);
      return S_ISREG(status.st_mode) ? Place{folder, part, ""} : Place{"", "", here};
    }
  }
  return failed(path, EISDIR);
}

}  // namespace mdl
