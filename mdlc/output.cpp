#include "mdlc/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace mdl::mdlc {
namespace {

Error failed(const std::string& path, int number) {
  return {fmt::format("cannot write {}: {}", path, std::strerror(number))};
}

// 0, or errno.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t done = write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return 0;
}

// The permissions that open() would have given.
mode_t permissions(const struct stat* existing) {
  if (existing) return existing->st_mode & 07777;
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

Result<void> write_directly(const std::string& path, std::string_view bytes) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return failed(path, errno);
  int number = write_all(fd, bytes);
  if (close(fd) != 0 && number == 0) number = errno;
  if (number != 0) return failed(path, number);
  return {};
}

}  // namespace

Result<void> write_output(const std::string& path, std::string_view bytes) {
  if (path == "-") {
    if (int number = write_all(STDOUT_FILENO, bytes)) return failed("standard output", number);
    return {};
  }
  struct stat existing {};
  bool exists = stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return failed(path, EISDIR);
  if (exists && !S_ISREG(existing.st_mode)) return write_directly(path, bytes);

  std::string temporary = path + ".XXXXXX";
  int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return failed(path, errno);
  int number = write_all(fd, bytes);
  if (number == 0 && fchmod(fd, permissions(exists ? &existing : nullptr)) != 0) number = errno;
  if (close(fd) != 0 && number == 0) number = errno;
  if (number == 0 && rename(temporary.c_str(), path.c_str()) != 0) number = errno;
  if (number == 0) return {};
  unlink(temporary.c_str());
  return failed(path, number);
}

}  // namespace mdl::mdlc
