#include "runtime/process/lock.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/nap.h"
#include "runtime/kernel/memory.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/process/target.h"

namespace mdl::process {

Result<TransactionLock> TransactionLock::take(pid_t pid, std::chrono::milliseconds deadline) {
  return wait_for(pid, deadline, LOCK_EX);
}

Result<TransactionLock> TransactionLock::share(pid_t pid, std::chrono::milliseconds deadline) {
  return wait_for(pid, deadline, LOCK_SH);
}

// `operation`: as of flock(2).
Result<TransactionLock> TransactionLock::wait_for(pid_t pid, std::chrono::milliseconds deadline,
                                                  int operation) {
  auto until = std::chrono::steady_clock::now() + deadline;
  int file = kernel::open_memory(kernel::live_thread(pid));
  if (file < 0) {
    if (errno == EACCES || errno == EPERM) return permission_error(pid);
    return Error{fmt::format("cannot open the memory of process {}: {}", pid, std::strerror(errno))};
  }
  TransactionLock lock(file);
  while (flock(file, operation | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{fmt::format("cannot take the lock on process {}: {}", pid, std::strerror(errno))};
    if (std::chrono::steady_clock::now() > until)
      return Error{
          fmt::format("another mdl-inject is looking at process {}, inserting into it or removing from it: "
                      "try again later",
                      pid)};
    nap(2000);
  }
  return lock;
}

TransactionLock::~TransactionLock() {
  if (file_ >= 0) close(file_);
}

TransactionLock::TransactionLock(TransactionLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

}  // namespace mdl::process
