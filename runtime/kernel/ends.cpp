#include "runtime/kernel/ends.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <set>
#include <string>

#include "base/aside.h"
#include "base/nap.h"
#include "base/proc_text.h"
#include "runtime/kernel/direct.h"

namespace mdl::kernel {
namespace {

std::mutex mutex;  // of `expected`
std::set<pid_t>& expected() {
  static auto* all = new std::set<pid_t>;  // the thread looks at it to the end
  return *all;
}
std::atomic<bool> seizing = false;

bool is_first(pid_t tid) {
  const std::string status = direct::proc_text(tid, "status");
  const std::string_view group = status_value(status, "Tgid");
  return group.empty() || group == std::to_string(tid);
}

// Its stop would be told, too.
bool has_ended(pid_t tid) {
  siginfo_t info{};
  return direct::look_at_event(tid, WEXITED, info) && info.si_pid == tid &&
         (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
}

void take_ends() {
  const std::lock_guard lock(mutex);
  std::erase_if(expected(), [](pid_t tid) {
    int status = 0;
    return has_ended(tid) && !is_first(tid) && waitpid(tid, &status, __WALL | WNOHANG) == tid;
  });
}

void watch() {
  // It may have begun in the middle of a pause, and has its beginner's priority.
  (void)setpriority(PRIO_PROCESS, 0, direct::usual_nice);
  for (int looks = 0;; nap(5000)) {
    looks = seizing ? looks + 1 : 0;
    if (looks > 1) take_ends();
    if (looks == 0) seizing.wait(false);
  }
}

}  // namespace

Seizing::Seizing() {
  [[maybe_unused]] static const bool started = (run_aside(watch), true);
  seizing = true;
  seizing.notify_one();
}

Seizing::~Seizing() {
  seizing = false;
}

void expect_end(pid_t tid) {
  const std::lock_guard lock(mutex);
  expected().insert(tid);
}

void forget_end(pid_t tid) {
  const std::lock_guard lock(mutex);
  expected().erase(tid);
}

}  // namespace mdl::kernel
