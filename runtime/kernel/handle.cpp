#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "runtime/kernel/direct.h"

namespace mdl::kernel::direct {

Opened open_handle(pid_t pid) {
  return {static_cast<int>(syscall(SYS_pidfd_open, pid, 0))};
}

bool stop_again(pid_t process, pid_t tid) {
  siginfo_t info{};
  return read_signal(tid, info) && syscall(SYS_tgkill, process, tid, SIGSTOP) == 0;
}

pid_t own_id() {
  return getpid();
}

const int usual_nice = getpriority(PRIO_PROCESS, 0);

// A thread of Linux has a nice value of its own. No nice value keeps one that this lets go from running before it, for
// its whole turn, while others wait to be let go.
bool hurry(pid_t tid, bool on) {
  const int nice = on ? -20 : usual_nice;
  const bool done =
      setpriority(PRIO_PROCESS, 0, nice) == 0 && setpriority(PRIO_PROCESS, static_cast<id_t>(tid), nice) == 0;
  const sched_param lowest{1}, usual{0};
  if (on && done)
    (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest);
  else if (!on)
    (void)sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &usual);
  return done;
}

}  // namespace mdl::kernel::direct

namespace mdl::kernel {

bool send_signal(int handle, int signal) {
  return syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0) == 0;
}

std::optional<int> end_of(int handle) {
  constexpr uint64_t kInfoExit = 1 << 3;  // PIDFD_INFO_EXIT
  direct::PidfdInfo info{};
  info.mask = kInfoExit;
  if (ioctl(handle, direct::kPidfdInfo, &info) != 0 || !(info.mask & kInfoExit)) return std::nullopt;
  return info.exit_code;
}

}  // namespace mdl::kernel
