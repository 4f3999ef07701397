// One transaction at a time in one process: two injectors that use the same slack, or each
// restore what the other has written, would be the end of the target. So would code that was read while
// another changed it: an injector that only looks at code shares the lock with others that look.
//
// The target may be an enemy, and can lock every file that it can open. So there are three locks, all of
// flock(2), which go with their holder however that dies:
// - a file of our own user (kernel/lock_file.h), which nobody else can open. It keeps injectors of one user
//   apart;
// - /proc/PID/mem, which everybody can open who may trace the process. It keeps injectors of two users
//   apart. The process itself can hold it, and each accomplice of its user: a holder that is not called
//   mdl-inject is passed over, once the first lock is ours. An accomplice with that name is waited for until
//   the deadline, and then named.
// - a handle of the process (pidfd_open(2)), which is one file in all namespaces (Linux 6.9, pidfs). It keeps
//   injectors inside and outside of a container apart, which see other files under both names above. Everybody can
//   open it: who could not trace the process is passed over, whatever he is called.
//
// break_lock() ends holders that are ours, or anybody's when we are root: an injector may be killed at any
// moment (runtime/patch/insert.h), but never overtaken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mdl::process {

class TransactionLock {
 public:
  // Waits for another mdl-inject's insertion or removal to end; a deadline of zero does not wait.
  static Result<TransactionLock> take(pid_t pid, std::chrono::milliseconds deadline);
  // The same, for an injector that only looks.
  static Result<TransactionLock> share(pid_t pid, std::chrono::milliseconds deadline);
  ~TransactionLock();
  TransactionLock(TransactionLock&& other) noexcept;
  TransactionLock& operator=(TransactionLock&&) = delete;

  // The holders of the second and third locks that were passed over, as text; "" when there were none.
  const std::string& passed_over() const { return passed_over_; }

 private:
  using Until = std::chrono::steady_clock::time_point;
  static Result<TransactionLock> wait_for(pid_t pid, std::chrono::milliseconds deadline, int operation);
  Result<void> wait_for_own(pid_t pid, Until until, int operation);
  Result<void> wait_for_shared(int& file, pid_t pid, Until until, int operation,
                               const std::function<bool(pid_t)>& is_at_work);
  TransactionLock(std::string name, int memory, int handle)
      : name_(std::move(name)), memory_(memory), handle_(handle) {}
  int own_ = -1;  // where no folder is safe
  std::string name_;
  int memory_;  // -1 when its holder was passed over
  int handle_;  // likewise, or where it is not one file for all
  std::string passed_over_;
};

// By which the first lock, and whatever else is of one process only, are known: the id, when it started, and our pid
// namespace, since another one that shares a folder or a network has other processes.
std::string lock_name(pid_t pid);

// Kills what has held the lock on a process for two seconds: says which processes these were. An error
// names a holder that is not ours to end.
Result<std::vector<std::string>> break_lock(pid_t pid);

}  // namespace mdl::process
