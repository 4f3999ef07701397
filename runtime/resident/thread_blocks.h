// The blocks of threads that are stopped, as the injector fills them before the code is there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "runtime/process/target_memory.h"
#include "runtime/resident/layout.h"

namespace mdl::resident {

// Frames on a thread's stack that raised a flag, or started a timer.
struct Active {
  uint64_t count = 0;
  uint64_t outermost = 0;  // the stack pointer at the entry of the outermost frame
};

// A session's data, as they lie in its process.
struct SessionData {
  const Layout& layout;
  uint64_t at = 0;  // an address
  pid_t process = 0;
  uint64_t ticks_per_second = 0;  // of wall timers
};

class ThreadBlocks {
 public:
  ThreadBlocks(const SessionData& data, const process::TargetMemory& memory) : data_(data), memory_(memory) {}
  Result<void> read();  // the directory
  // The block that a thread has, an address; none where it has not asked for one.
  std::optional<uint64_t> find(uint64_t thread_pointer) const;
  // The thread's block, as its own code will find it: an address.
  Result<uint64_t> claim(pid_t tid, uint64_t thread_pointer);
  // A flag counts the frames, besides those that it counts already; a timer runs from now on.
  Result<void> raise(uint64_t block, pid_t tid, focus::CellId cell, const focus::CellSlot& slot,
                     const Active& frames);
  // The clock of a timer as the thread's code would read it now.
  Result<uint64_t> clock(uint64_t block, pid_t tid, const focus::CellSlot& slot);

 private:
  Result<void> write(uint64_t at, std::span<const uint64_t> words);

  SessionData data_;
  const process::TargetMemory& memory_;
  std::vector<uint64_t> directory_;
};

}  // namespace mdl::resident
