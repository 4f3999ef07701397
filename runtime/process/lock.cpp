#include "runtime/process/lock.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <utility>

#include "runtime/process/target.h"

namespace mdl::process {

Result<TransactionLock> TransactionLock::take(pid_t pid, std::chrono::milliseconds deadline) {
  auto until = std::chrono::steady_clock::now() + deadline;
  int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0) return Error{fmt::format("cannot make a socket for the lock: {}", std::strerror(errno))};
  TransactionLock lock(file);
  std::string name = fmt::format("mdl-inject/{}/{}", pid, start_time(pid));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero: the abstract namespace
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  while (bind(file, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE)
      return Error{fmt::format("cannot take the lock on process {}: {}", pid, std::strerror(errno))};
    if (std::chrono::steady_clock::now() > until)
      return Error{fmt::format(
          "another mdl-inject is inserting into process {} or removing from it: try again later", pid)};
    timespec nap{0, 2'000'000};
    nanosleep(&nap, nullptr);
  }
  return lock;
}

TransactionLock::~TransactionLock() {
  if (socket_ >= 0) close(socket_);
}

TransactionLock::TransactionLock(TransactionLock&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)) {}

}  // namespace mdl::process
