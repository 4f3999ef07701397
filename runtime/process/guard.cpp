#include "runtime/process/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/read_text.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/trace.h"

namespace mdl::process {
namespace {

constexpr char kKnown = 'k', kRelease = 'r';

[[noreturn]] void watch(int connection) {
  setsid();  // a terminal's interrupt is not for it
  for (int signal : {SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  dup2(connection, 3);
  closefrom(4);
  pid_t program = 0;
  if (!read_all(3, &program, sizeof program)) _exit(0);
  const int handle = kernel::open_handle(program);  // so that its number cannot become another's
  char word = kKnown;
  if (write(3, &word, 1) != 1) _exit(0);
  if (!read_all(3, &word, 1) && handle >= 0) kernel::send_signal(handle, SIGKILL);
  _exit(0);
}

}  // namespace

Result<Guard> Guard::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{fmt::format("no socket: {}", std::strerror(errno))};
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    watch(ends[0]);
  }
  const int failed = errno;
  close(ends[0]);
  if (pid > 0) return Guard(pid, ends[1]);
  close(ends[1]);
  return Error{fmt::format("no process can be started: {}", std::strerror(failed))};
}

Guard::Guard(Guard&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), connection_(std::exchange(other.connection_, -1)) {}

Guard::~Guard() {
  if (pid_ < 0) return;
  close(connection_);
  while (kernel::wait_for(pid_, nullptr) < 0 && errno == EINTR) continue;
}

void Guard::guard_this() {
  const pid_t self = getpid();
  char word = 0;
  // It is there for as long as it waits, so the guard opens it and no other that has got its number.
  if (write(connection_, &self, sizeof self) == sizeof self) read_all(connection_, &word, 1);
}

void Guard::release() {
  [[maybe_unused]] const ssize_t put = write(connection_, &kRelease, 1);
}

}  // namespace mdl::process
