#include "runtime/process/lock_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace mdl::process {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool is_ours_alone(int folder) {
  struct stat found {};
  return fstat(folder, &found) == 0 && found.st_uid == geteuid() && (found.st_mode & 077) == 0;
}

int open_in(const std::string& parent, const std::string& name) {
  const int above = open(parent.c_str(), kFolder);
  if (above < 0) return -1;
  mkdirat(above, name.c_str(), 0700);  // it may be there
  int folder = openat(above, name.c_str(), kFolder);
  close(above);
  if (folder >= 0 && !is_ours_alone(folder)) {
    close(folder);
    folder = -1;
  }
  return folder;
}

}  // namespace

int open_lock_folder() {
  const uid_t user = geteuid();
  const int folder = open_in(user == 0 ? "/run" : fmt::format("/run/user/{}", user), "mdl");
  return folder >= 0 ? folder : open_in("/tmp", fmt::format("mdl-{}", user));
}

}  // namespace mdl::process
