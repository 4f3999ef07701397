// Removal: every byte back as it was, then the memory given back.
//
// restore() puts the original bytes back while all threads are stopped, and returns when no
// thread is inside a trampoline any more (neither its pc nor an address on its stack): then
// the values are final and every thread is still stopped, so that the caller can read them.
// finish() unmaps. A thread that stays inside past the deadline (asleep in a signal handler
// that interrupted a trampoline) keeps the code mapped: it is inert, since nothing jumps to it.
#pragma once

#include <chrono>
#include <optional>

#include "base/result.h"
#include "runtime/image/unwind.h"
#include "runtime/patch/journal.h"
#include "runtime/process/lock.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/threads.h"

namespace mdl::patch {

class Removal {
 public:
  Removal(pid_t pid, const process::TargetMemory& memory) : pid_(pid), memory_(memory), threads_(pid) {}

  // Until `deadline`, also through states in which a process cannot be stopped (the parent of a
  // vfork). After an error of restore() the code may still be patched.

  // `journal` may be null: a session that was never completed has changed no code.
  Result<void> restore(const Journal* journal, std::chrono::milliseconds deadline);
  // Status::left_inert when something had to stay.
  Result<void> finish();

  size_t restored() const { return restored_; }
  size_t foreign() const { return foreign_; }  // windows that hold neither our bytes nor the original ones

 private:
  Result<void> put_back(const Journal* journal);
  bool anyone_inside(const image::Unwinder& unwinder);

  pid_t pid_;
  const process::TargetMemory& memory_;
  process::Threads threads_;
  std::optional<process::TransactionLock> lock_;
  std::optional<image::Image> image_;
  size_t restored_ = 0;
  size_t foreign_ = 0;
  bool inside_ = false;
};

}  // namespace mdl::patch
