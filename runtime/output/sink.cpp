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
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return failed("open", path, errno);
  return Sink(fd, path, true);
}

Sink::Sink(Sink&& other) noexcept : fd_(other.fd_), name_(std::move(other.name_)), owned_(other.owned_) {
  other.fd_ = -1;
}

Sink::~Sink() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

bool Sink::is_terminal() const {
  return isatty(fd_) == 1;
}

Result<void> Sink::write(std::string_view text) {
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
  struct stat status {};
  return owned_ && fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
}

Result<void> Sink::replace(std::string_view text) {
  char* const real = realpath(name_.c_str(), nullptr);  // a symbolic link stays one
  const std::string path = real ? real : name_;
  std::free(real);
  const std::string next = fmt::format("{}.{}", path, getpid());
  struct stat old {};
  const mode_t mode = fstat(fd_, &old) == 0 ? old.st_mode & 07777 : 0666;
  const int fd = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return failed("open", next, errno);
  Sink fresh(fd, next, true);
  Result<void> written = fresh.write(text);
  if (written && fchmod(fd, mode) != 0) written = failed("write", next, errno);
  if (Result<void> closed = fresh.close(); written) written = closed;
  if (written && rename(next.c_str(), path.c_str()) != 0) written = failed("replace", path, errno);
  if (!written) unlink(next.c_str());
  return written;
}

Result<void> Sink::close() {
  if (!owned_ || fd_ < 0) return {};
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0 && errno != EINTR) return failed("write", name_, errno);
  return {};
}

}  // namespace mdl::output
