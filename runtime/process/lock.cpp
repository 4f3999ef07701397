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
#include <set>
#include <sstream>
#include <utility>

#include "base/nap.h"
#include "runtime/kernel/confine.h"
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

bool is_same_file(int file, int other) {
  struct stat one {};
  struct stat two {};
  return fstat(file, &one) == 0 && fstat(other, &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

// A handle to lock; -1 where those of all processes are one file (Linux before 6.9).
int open_own_file(pid_t pid) {
  const int file = kernel::open_handle(pid);
  if (file < 0) return -1;
  const int other = kernel::open_handle(kernel::own_id());
  const bool is_shared = other < 0 || is_same_file(file, other);
  if (other >= 0) close(other);
  if (!is_shared) return file;
  close(file);
  return -1;
}

// Everybody can lock a handle. One that works on the process is root or its worker, of the process's user, or
// privileged in its container.
bool is_at_work(pid_t holder, pid_t pid) {
  const ProcessStatus status = read_status(holder);
  if (status.name != kInjectorName) return false;
  if (status.uid == 0 || kernel::is_workers_user(status.uid) || status.uid == read_status(pid).uid)
    return true;
  const std::string users = kernel::proc_link(pid, "ns/user");
  return !users.empty() && users != kernel::own_link("ns/user") &&
         users == kernel::proc_link(holder, "ns/user");
}

// Of all locks, those that are waited for.
std::vector<pid_t> waited_for(pid_t pid) {
  std::set<pid_t> out;
  const auto add = [&](int file, const auto& counts) {
    if (file < 0) return;
    for (pid_t holder : holders_of(file))
      if (counts(holder)) out.insert(holder);
    close(file);
  };
  add(kernel::open_memory(kernel::live_thread(pid)), is_injector);
  add(open_own_file(pid), [&](pid_t holder) { return is_at_work(holder, pid); });
  if (const pid_t own = holder_of_own(pid); own != 0) out.insert(own);
  out.erase(getpid());
  return {out.begin(), out.end()};
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
  const int memory = kernel::open_memory(kernel::live_thread(pid));
  if (memory < 0) {
    if (errno == EACCES || errno == EPERM) return permission_error(pid);
    return Error{fmt::format("cannot open the memory of process {}: {}", pid, std::strerror(errno))};
  }
  TransactionLock lock(lock_name(pid), memory, open_own_file(pid));
  if (auto ok = lock.wait_for_own(pid, until, operation); !ok) return ok.error();
  if (auto ok = lock.wait_for_shared(lock.memory_, pid, until, operation, is_injector); !ok)
    return ok.error();
  if (auto ok = lock.wait_for_shared(lock.handle_, pid, until, operation,
                                     [&](pid_t holder) { return is_at_work(holder, pid); });
      !ok)
    return ok.error();
  return lock;
}

Result<void> TransactionLock::wait_for_own(pid_t pid, Until until, int operation) {
  const std::string text = fmt::format("{:<10}\n", getpid());
  while ((own_ = kernel::lock_file(name_, operation, text)) < 0 && errno == EWOULDBLOCK) {
    if (Clock::now() > until) {
      const pid_t holder = holder_of_own(pid);
      return held_by(pid, holder ? std::vector<pid_t>{holder} : std::vector<pid_t>{});
    }
    nap(2000);
  }
  return {};
}

// `file`, where there is one; closed when its holders are passed over: those that are seen and not at work.
Result<void> TransactionLock::wait_for_shared(int& file, pid_t pid, Until until, int operation,
                                              const std::function<bool(pid_t)>& is_at_work) {
  while (file >= 0 && flock(file, operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{fmt::format("cannot take the lock on process {}: {}", pid, std::strerror(errno))};
    const std::vector<pid_t> holders = holders_of(file);
    // One that has just ended says nothing about who holds it now.
    const auto is_other = [&](pid_t holder) { return read_status(holder).has_pid && !is_at_work(holder); };
    if (own_ >= 0 && !holders.empty() && std::ranges::all_of(holders, is_other)) {
      passed_over_ = named(holders);
      close(std::exchange(file, -1));
      break;
    }
    if (Clock::now() > until) return held_by(pid, holders);
    nap(2000);
  }
  return {};
}

// The file is removed by its last holder. Others that have opened it see that (kernel::lock_file).
TransactionLock::~TransactionLock() {
  for (int file : {own_, memory_, handle_})
    if (file >= 0) close(file);
  if (own_ >= 0) kernel::remove_lock_file(name_);
}

TransactionLock::TransactionLock(TransactionLock&& other) noexcept
    : own_(std::exchange(other.own_, -1)),
      name_(std::move(other.name_)),
      memory_(std::exchange(other.memory_, -1)),
      handle_(std::exchange(other.handle_, -1)),
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
