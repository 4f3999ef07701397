#include "runtime/inject/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>

#include "base/read_text.h"

namespace mdl::inject {
namespace {

// struct pidfd_info and its ioctl, linux/pidfd.h of Linux 6.15.
struct PidfdInfo {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
constexpr uint64_t kInfoExit = 1 << 3;  // PIDFD_INFO_EXIT

std::optional<int> signal_of(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

Result<Watch> Watch::open(pid_t pid) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0)
    return Error{fmt::format("there is no process {} to watch: {}", pid, std::strerror(errno))};
  int signals = signalfd(-1, &set, SFD_CLOEXEC);
  return Watch(pid, process, signals);
}

Watch::~Watch() {
  if (process_ >= 0) close(process_);
  if (signals_ >= 0) close(signals_);
}

Watch::Watch(Watch&& other) noexcept
    : pid_(other.pid_),
      process_(std::exchange(other.process_, -1)),
      signals_(std::exchange(other.signals_, -1)) {}

Watch::Event Watch::wait_until(std::chrono::steady_clock::time_point when) const {
  for (;;) {
    auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(when - std::chrono::steady_clock::now()).count();
    if (left < 0) left = 0;
    timespec time{left / 1'000'000'000, left % 1'000'000'000};
    pollfd files[2] = {{process_, POLLIN, 0}, {signals_, POLLIN, 0}};
    int ready = ppoll(files, 2, &time, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (files[0].revents) return Event::ended;
    if (files[1].revents) return Event::interrupted;
    return Event::due;
  }
}

std::optional<int> Watch::killed_by() const {
  PidfdInfo info{};
  info.mask = kInfoExit;
  if (ioctl(process_, _IOWR(0xff, 11, PidfdInfo), &info) == 0 && info.mask & kInfoExit)
    return signal_of(info.exit_code);
  // Not waited for yet: the last field but none of /proc/PID/stat is the status (proc(5)).
  std::string text = read_text(fmt::format("/proc/{}/stat", pid_));
  size_t at = text.rfind(") ");
  if (at == std::string::npos || text[at + 2] != 'Z') return std::nullopt;
  std::istringstream fields(text.substr(at + 2));
  std::string field;
  for (int i = 3; i <= 52; i++) fields >> field;  // field 52, exit_code
  return fields ? signal_of(std::atoi(field.c_str())) : std::nullopt;
}

}  // namespace mdl::inject
