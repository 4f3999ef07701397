// One transaction at a time in one process: two injectors that use the same slack, or each
// restore what the other has written, would be the end of the target. So would code that was read while
// another changed it: who looks at code shares the lock with others who look. The lock is flock(2) on
// /proc/PID/mem: it goes with its holder however that dies, and nobody who may not trace the process can take
// it.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/result.h"

namespace mdl::process {

class TransactionLock {
 public:
  // Waits for another mdl-inject's insertion or removal to end; a deadline of zero does not wait.
  static Result<TransactionLock> take(pid_t pid, std::chrono::milliseconds deadline);
  // The same, for somebody who only looks.
  static Result<TransactionLock> share(pid_t pid, std::chrono::milliseconds deadline);
  ~TransactionLock();
  TransactionLock(TransactionLock&& other) noexcept;
  TransactionLock& operator=(TransactionLock&&) = delete;

 private:
  static Result<TransactionLock> wait_for(pid_t pid, std::chrono::milliseconds deadline, int operation);
  explicit TransactionLock(int file) : file_(file) {}
  int file_;
};

}  // namespace mdl::process
