#include "runtime/kernel/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/kernel/direct.h"

namespace mdl::kernel::direct {
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

// -1 where there is none.
int open_lock_folder() {
  const std::string user = std::to_string(geteuid());
  const int folder = open_in(geteuid() == 0 ? "/run" : "/run/user/" + user, "mdl");
  return folder >= 0 ? folder : open_in("/tmp", "mdl-" + user);
}

int open_lock(std::string_view name, int flags) {
  const int folder = open_lock_folder();
  if (folder < 0) return -1;
  const int file = openat(folder, std::string(name).c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600);
  close(folder);
  return file;
}

// Its last holder may have removed it meanwhile: then others lock another file.
bool is_there(std::string_view name, int file) {
  const int again = open_lock(name, O_RDONLY);
  struct stat ours {};
  struct stat there {};
  const bool same =
      again >= 0 && fstat(file, &ours) == 0 && fstat(again, &there) == 0 && ours.st_ino == there.st_ino;
  if (again >= 0) close(again);
  return same;
}

}  // namespace

Opened lock_file(std::string_view name, int operation, std::string_view text) {
  const int file = open_lock(name, O_RDWR | O_CREAT);
  if (file < 0) return {};
  if (flock(file, operation | LOCK_NB) == 0 && is_there(name, file)) {
    [[maybe_unused]] const ssize_t put = write(file, text.data(), text.size());
    return {file};
  }
  close(file);
  errno = EWOULDBLOCK;
  return {};
}

Opened look_at_lock_file(std::string_view name) {
  return {open_lock(name, O_RDONLY)};
}

bool remove_lock_file(std::string_view name) {
  const int folder = open_lock_folder(), file = open_lock(name, O_RDONLY);
  const bool removed = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && is_there(name, file) &&
                       unlinkat(folder, std::string(name).c_str(), 0) == 0;
  if (file >= 0) close(file);
  if (folder >= 0) close(folder);
  return removed;
}

}  // namespace mdl::kernel::direct
