#include "runtime/process/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <sstream>
#include <utility>

#include "base/nap.h"
#include "runtime/kernel/handle.h"
#include "runtime/kernel/lock_file.h"
#include "runtime/kernel/memory.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/process/target.h"

namespace mdl::process {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// The process that has written its id last into the file, while somebody holds its lock; else 0.
pid_t holder_of_own(pid_t pid) {
  const int file = kernel::look_at_lock_file(lock_name(pid));
  if (file < 0) return 0;
  char text[16] = {};
  const bool held = flock(file, LOCK_EX | LOCK_NB) != 0 && read(file, text, sizeof text - 1) > 0;
  close(file);
  return held ? static_cast<pid_t>(std::atoi(text)) : 0;
}

// The processes that hold a lock of flock(2) on the file, as the kernel shows them (proc_locks(5)). One in a
// pid namespace that is not below ours is not shown.
std::vector<pid_t> holders_of(int file) {
  struct stat of {};
  if (fstat(file, &of) != 0) return {};
  const std::string wanted = fmt::format("{:02x}:{:02x}:{}", major(of.st_dev), minor(of.st_dev), of.st_ino);
  std::vector<pid_t> out;
  std::istringstream lines(kernel::system_text("/proc/locks"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, where;
    pid_t holder = 0;
    if (words >> number >> kind >> advisory >> access >> holder >> where && kind == "FLOCK" &&
        where == wanted)
      out.push_back(holder);
  }
  return out;
}

std::string named(pid_t holder) {
  const ProcessStatus status = read_status(holder);
  if (!status.has_pid) return fmt::format("process {}", holder);
  return fmt::format("process {} ({}, uid {})", holder, status.name, status.uid);
}

std::string named(const std::vector<pid_t>& holders) {
  if (holders.empty()) return "a process that cannot be seen from here";
  std::vector<std::string> names;
  for (pid_t holder : holders) names.push_back(named(holder));
  return fmt::format("{}", fmt::join(names, ", "));
}

Error held_by(pid_t pid, const std::vector<pid_t>& holders) {
  return {fmt::format(
      "another mdl-inject is looking at process {}, inserting into it or removing from it: {} holds the "
      "lock; try again later, or end the holder with --break-lock",
      pid, named(holders))};
}

// Of both locks, those that are waited for.
std::vector<pid_t> waited_for(pid_t pid) {
  std::vector<pid_t> out;
  if (const int memory = kernel::open_memory(kernel::live_thread(pid)); memory >= 0) {
    for (pid_t holder : holders_of(memory))
      if (is_injector(holder)) out.push_back(holder);
    close(memory);
  }
  if (const pid_t own = holder_of_own(pid); own != 0 && std::ranges::find(out, own) == out.end())
    out.push_back(own);
  std::erase(out, getpid());
  return out;
}

}  // namespace

std::string lock_name(pid_t pid) {
  return fmt::format("{}-{}-{}", pid, start_time(pid), pid_namespace());
}

Result<TransactionLock> TransactionLock::take(pid_t pid, std::chrono::milliseconds deadline) {
  return wait_for(pid, deadline, LOCK_EX);
}

Result<TransactionLock> TransactionLock::share(pid_t pid, std::chrono::milliseconds deadline) {
  return wait_for(pid, deadline, LOCK_SH);
}

// `operation`: as of flock(2).
Result<TransactionLock> TransactionLock::wait_for(pid_t pid, std::chrono::milliseconds deadline,
                                                  int operation) {
  const auto until = Clock::now() + deadline;
  const int file = kernel::open_memory(kernel::live_thread(pid));
  if (file < 0) {
    if (errno == EACCES || errno == EPERM) return permission_error(pid);
    return Error{fmt::format("cannot open the memory of process {}: {}", pid, std::strerror(errno))};
  }
  TransactionLock lock(-1, lock_name(pid), file);
  const std::string holder = fmt::format("{:<10}\n", getpid());
  while ((lock.own_ = kernel::lock_file(lock.name_, operation, holder)) < 0 && errno == EWOULDBLOCK) {
    if (Clock::now() > until) {
      const pid_t holder = holder_of_own(pid);
      return held_by(pid, holder ? std::vector<pid_t>{holder} : std::vector<pid_t>{});
    }
    nap(2000);
  }
  while (flock(file, operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{fmt::format("cannot take the lock on process {}: {}", pid, std::strerror(errno))};
    const std::vector<pid_t> holders = holders_of(file);
    if (lock.own_ >= 0 && !holders.empty() && std::ranges::none_of(holders, is_injector)) {
      lock.passed_over_ = named(holders);
      close(std::exchange(lock.memory_, -1));
      break;
    }
    if (Clock::now() > until) return held_by(pid, holders);
    nap(2000);
  }
  return lock;
}

// The file is removed by its last holder. Others that have opened it see that (lock_own()).
TransactionLock::~TransactionLock() {
  for (int file : {own_, memory_})
    if (file >= 0) close(file);
  if (own_ >= 0) kernel::remove_lock_file(name_);
}

TransactionLock::TransactionLock(TransactionLock&& other) noexcept
    : own_(std::exchange(other.own_, -1)),
      name_(std::move(other.name_)),
      memory_(std::exchange(other.memory_, -1)),
      passed_over_(std::move(other.passed_over_)) {}

Result<std::vector<std::string>> break_lock(pid_t pid) {
  std::map<pid_t, std::string> ended;
  const auto begun = Clock::now();
  for (;; nap(2000)) {
    const std::vector<pid_t> holders = waited_for(pid);
    if (holders.empty()) break;
    if (Clock::now() - begun < 2s) continue;  // those that are at work are done soon
    if (Clock::now() - begun > 7s) return held_by(pid, holders);
    for (pid_t holder : holders) {
      const int handle = kernel::open_handle(holder);
      if (handle < 0) continue;  // it has ended
      // The handle is of a process that holds the lock: nobody gets its id from here on.
      const std::vector<pid_t> now = waited_for(pid);
      const ProcessStatus status = read_status(holder);
      const bool holds = std::ranges::find(now, holder) != now.end() && status.name == kInjectorName;
      const bool is_ours = geteuid() == 0 || status.uid == geteuid();
      const std::string name = named(holder);
      const bool killed = holds && is_ours && kernel::send_signal(handle, SIGKILL);
      close(handle);
      if (holds && !killed)
        return Error{fmt::format("the lock on process {} is held by {}, which only that user or root may end",
                                 pid, name)};
      if (killed) ended.emplace(holder, name);
    }
  }
  std::vector<std::string> out;
  for (const auto& [id, name] : ended) out.push_back(name);
  return out;
}

}  // namespace mdl::process
