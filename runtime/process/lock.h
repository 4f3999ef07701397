// One transaction at a time in one process: two injectors that use the same slack, or each
// restore what the other has written, would be the end of the target. The lock is an abstract
// socket name, so it goes with its holder however that dies.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "base/result.h"

namespace mdl::process {

class TransactionLock {
 public:
  // Waits for another mdl-inject's insertion or removal to end.
  static Result<TransactionLock> take(pid_t pid, std::chrono::milliseconds deadline);
  ~TransactionLock();
  TransactionLock(TransactionLock&& other) noexcept;
  TransactionLock& operator=(TransactionLock&&) = delete;

 private:
  explicit TransactionLock(int socket) : socket_(socket) {}
  int socket_;
};

}  // namespace mdl::process
