#include "base/put_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "base/open_folder.h"

namespace mdl {
namespace {

constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;

// The mode of the old file, which is handed on.
std::optional<mode_t> old_mode(int folder, const std::string& name) {
  struct stat old {};
  if (fstatat(folder, name.c_str(), &old, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(old.st_mode)) return {};
  return old.st_uid == geteuid() || old.st_uid == 0 ? std::optional(old.st_mode & 0777) : std::nullopt;
}

int open_new(int folder, const std::string& name) {
  const int file = openat(folder, name.c_str(), kNew, 0600);
  if (file >= 0 || errno != EEXIST || unlinkat(folder, name.c_str(), 0) != 0) return file;
  return openat(folder, name.c_str(), kNew, 0600);  // one of the same number left it
}

// A file that is a mount, as containers have them, can only be written over.
int write_over(int folder, const std::string& name, std::string_view text, int& number) {
  const int file = openat(folder, name.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
  number = file < 0 ? errno : write_all(file, text);
  if (file >= 0 && number != 0) close(file);
  return number == 0 ? file : -1;
}

int put(int folder, const std::string& name, std::string_view text, mode_t mode, int& number) {
  const std::string next = fmt::format("{}.{}", name, getpid());
  const std::optional<mode_t> kept = old_mode(folder, name);
  const int file = open_new(folder, next);
  if (file < 0) {
    number = errno;
    return -1;
  }
  number = write_all(file, text);
  if (number == 0 && fchmod(file, kept.value_or(mode)) != 0) number = errno;
  if (number == 0 && renameat(folder, next.c_str(), folder, name.c_str()) != 0) number = errno;
  if (number == 0) return file;
  close(file);
  unlinkat(folder, next.c_str(), 0);
  return number == EBUSY ? write_over(folder, name, text, number) : -1;
}

}  // namespace

int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(file, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    text.remove_prefix(static_cast<size_t>(done));
  }
  return 0;
}

Result<int> put_file(const Place& place, std::string_view text, mode_t mode, const std::string& path) {
  const int folder = open_folder(place.folder);
  if (folder < 0) return cannot_write(path, errno);
  int number = 0;
  const int file = put(folder, place.name, text, mode, number);
  close(folder);
  return file < 0 ? Result<int>(cannot_write(path, number)) : Result<int>(file);
}

Error cannot_write(const std::string& path, int number) {
  const char* const advice = number == EPIPE    ? " (its reader has gone away)"
                             : number == ENOSPC ? " (free some space, or write elsewhere with -o)"
                                                : "";
  return {fmt::format("cannot write {}: {}{}", path, std::strerror(number), advice)};
}

}  // namespace mdl
