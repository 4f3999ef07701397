#include "runtime/kernel/handle.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace mdl::kernel {
namespace {

// struct pidfd_info and its ioctl, linux/pidfd.h of Linux 6.15.
struct PidfdInfo {
  uint64_t mask, cgroup;
  uint32_t ids[11];
  int32_t exit_code;
};
constexpr uint64_t kInfoExit = 1 << 3;  // PIDFD_INFO_EXIT

}  // namespace

int open_handle(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

bool send_signal(int handle, int signal) {
  return syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0) == 0;
}

std::optional<int> end_of(int handle) {
  PidfdInfo info{};
  info.mask = kInfoExit;
  if (ioctl(handle, _IOWR(0xff, 11, PidfdInfo), &info) != 0 || !(info.mask & kInfoExit)) return std::nullopt;
  return info.exit_code;
}

bool signal_thread(pid_t process, pid_t tid, int signal) {
  return syscall(SYS_tgkill, process, tid, signal) == 0;
}

bool kill_process(pid_t pid) {
  return kill(pid, SIGKILL) == 0;
}

}  // namespace mdl::kernel
