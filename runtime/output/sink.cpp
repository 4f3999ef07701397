#include "runtime/output/sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <optional>
#include <utility>

#include "base/put_file.h"
#include "base/say.h"

namespace mdl::output {
namespace {

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
    if (fd < 0) return cannot_write(path, errno);
    return Sink(fd, path, true);
  }
  // Before anything is measured: afterwards it would be in vain.
  if (faccessat(AT_FDCWD, place->folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return cannot_write(path, errno);
  Sink sink(-1, path, true);
  sink.place_ = std::move(*place);
  sink.is_begun_ = false;
  return sink;
}

Sink::Sink(int fd, std::string name, bool owned)
    : fd_(fd), name_(std::move(name)), owned_(owned), is_terminal_(isatty(fd) == 1) {}

Sink::Sink(Sink&& other) noexcept
    : place_(std::move(other.place_)),
      is_begun_(other.is_begun_),
      fd_(other.fd_),
      name_(std::move(other.name_)),
      owned_(other.owned_),
      is_terminal_(other.is_terminal_),
      other_(std::move(other.other_)),
      meanwhile_(std::move(other.meanwhile_)) {
  other.fd_ = -1;
}

Sink::~Sink() {
  if (owned_ && fd_ >= 0) ::close(fd_);
}

std::string Sink::shown(std::string line) const {
  return is_terminal_ ? harmless(line) : std::move(line);
}

Result<void> Sink::write(std::string_view text) {
  if (!is_begun_) {
    auto file = publish(text);
    if (!file) return file.error();
    fd_ = *file;
    return {};
  }
  using Clock = std::chrono::steady_clock;
  constexpr int kPollMs = 2;
  Clock::time_point served = Clock::now();
  constexpr std::chrono::seconds kPatience(
      2);                                  // with a reader that does not read, when somebody wants us to end
  std::optional<Clock::time_point> asked;  // since when that is known and nothing was read
  while (!text.empty()) {
    if (Clock::now() - served >= std::chrono::milliseconds(kPollMs)) {
      meanwhile_();
      served = Clock::now();
    }
    pollfd room{fd_, POLLOUT, 0};
    const int ready = poll(&room, 1, kPollMs);
    if (ready == 0) {
      if (is_interrupted()) {
        if (!asked) asked = Clock::now();
        if (Clock::now() - *asked >= kPatience)
          return Error{fmt::format("cannot write {}: nobody reads it, and it was to end", name_)};
      }
    }
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    asked.reset();
    // Not more than what a pipe with room takes at once (pipe(7)).
    const ssize_t written = ::write(fd_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written >= 0)
      text.remove_prefix(static_cast<size_t>(written));
    else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
      return failed(errno);
  }
  return {};
}

Error Sink::failed(int number) const {
  Error error = cannot_write(name_, number);
  error.is_quiet = number == EPIPE && !owned_;
  return error;
}

bool Sink::can_replace() const {
  return !place_.name.empty();
}

Result<int> Sink::publish(std::string_view text) {
  constexpr mode_t kOwners = 0600;  // what a process does is nobody else's affair
  auto file = other_ ? other_(text) : put_file(place_, text, kOwners, name_);
  is_begun_ = is_begun_ || file;
  return file;
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
  if (::close(fd) != 0 && errno != EINTR) return cannot_write(name_, errno);
  return {};
}

}  // namespace mdl::output
