#include "runtime/output/sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/open_folder.h"

namespace mdl::output {
namespace {

Error failed(const char* what, const std::string& name, int number) {
  const char* const advice = number == EPIPE    ? " (its reader has gone away)"
                             : number == ENOSPC ? " (free some space, or write elsewhere with -o)"
                                                : "";
  return {fmt::format("cannot {} {}: {}{}", what, name, std::strerror(number), advice)};
}

// Signals are blocked while a process is measured (session/watch.h): they wait, and so do we for a reader.
bool is_interrupted() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) || sigismember(&pending, SIGHUP);
}

}  // namespace

Result<Sink> Sink::open(const std::string& path) {
  if (path.empty()) return Sink(STDOUT_FILENO, "standard output", false);
  auto place = place_of(path);
  if (!place) return place.error();
  if (place->name.empty()) {
    const int fd = ::open(place->as_it_is.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return failed("open", path, errno);
    return Sink(fd, path, true);
  }
  // Before anything is measured: afterwards it would be in vain.
  if (faccessat(AT_FDCWD, place->folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return failed("open", path, errno);
  Sink sink(-1, path, true);
  sink.place_ = std::move(*place);
  sink.is_begun_ = false;
  return sink;
}

Sink::Sink(Sink&& other) noexcept
    : place_(std::move(other.place_)),
      is_begun_(other.is_begun_),
      fd_(other.fd_),
      name_(std::move(other.name_)),
      owned_(other.owned_),
      other_(std::move(other.other_)) {
  other.fd_ = -1;
}

Sink::~Sink() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

bool Sink::is_terminal() const {
  return isatty(fd_) == 1;
}

Result<void> Sink::write(std::string_view text) {
  if (!is_begun_) {
    auto file = publish(text);
    if (!file) return file.error();
    fd_ = *file;
    return {};
  }
  constexpr int kPatienceMs = 1000;  // with a reader that does not read, when somebody wants us to end
  while (!text.empty()) {
    pollfd room{fd_, POLLOUT, 0};
    const int ready = poll(&room, 1, kPatienceMs);
    if (ready == 0 && is_interrupted())
      return Error{fmt::format("cannot write {}: nobody reads it, and it was to end", name_)};
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    // Not more than what a pipe with room takes at once (pipe(7)).
    const ssize_t written = ::write(fd_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written >= 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
      return failed("write", name_, errno);
  }
  return {};
}

bool Sink::can_replace() const {
  return !place_.name.empty();
}

// A new file of this text in the place; its descriptor.
Result<int> Sink::publish(std::string_view text) {
  if (other_) {
    auto file = other_(text);
    is_begun_ = is_begun_ || file;
    return file;
  }
  const int folder = open_folder(place_.folder);
  if (folder < 0) return failed("open", name_, errno);
  const std::string next = fmt::format("{}.{}", place_.name, getpid());
  struct stat old {};
  const bool is_kept = fstatat(folder, place_.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISREG(old.st_mode) && (old.st_uid == geteuid() || old.st_uid == 0);
  constexpr int kMounted = O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  int fd = openat(folder, next.c_str(), kNew, 0600);
  if (fd < 0 && errno == EEXIST && unlinkat(folder, next.c_str(), 0) == 0)
    fd = openat(folder, next.c_str(), kNew, 0600);  // one of the same number left it
  const int number = errno;
  if (fd < 0) ::close(folder);
  if (fd < 0) return failed("open", name_ + "." + std::to_string(getpid()), number);
  Sink fresh(fd, name_, false);
  Result<void> written = fresh.write(text);
  if (written && is_kept && fchmod(fd, old.st_mode & 0777) != 0) written = failed("write", name_, errno);
  if (written && renameat(folder, next.c_str(), folder, place_.name.c_str()) != 0) {
    written = failed("replace", name_, errno);
    // A file that is a mount, as containers have them, can only be written over.
    const int mounted = errno == EBUSY ? openat(folder, place_.name.c_str(), kMounted) : -1;
    if (mounted >= 0) {
      unlinkat(folder, next.c_str(), 0);
      ::close(std::exchange(fd, mounted));
      written = Sink(fd, name_, false).write(text);
    }
  }
  if (!written) unlinkat(folder, next.c_str(), 0);
  ::close(folder);
  if (written) {
    is_begun_ = true;
    return fd;
  }
  ::close(fd);
  return written.error();
}

Result<void> Sink::replace(std::string_view text) {
  auto file = publish(text);
  if (!file) return file.error();
  if (fd_ >= 0) ::close(fd_);
  fd_ = *file;
  return {};
}

Result<void> Sink::close() {
  if (!owned_ || fd_ < 0) return {};
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0 && errno != EINTR) return failed("write", name_, errno);
  return {};
}

}  // namespace mdl::output
