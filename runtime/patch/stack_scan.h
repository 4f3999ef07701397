// Where a stopped thread may come back to: what its frames say when its stack can be walked to
// the end, over signal frames from stack to stack; otherwise every word that looks like an
// address counts as one, from where the walk got into doubt. (Old words stay on stacks for long: a
// scan alone would find threads inside code that they left hours ago.) A stack may lie in memory that
// nobody but the program can read (memfd_secret(2), pages that userfaultfd(2) has not filled yet): then it is
// not known where the thread will return to, and nothing may depend on that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/arch/thread_registers.h"
#include "runtime/image/image.h"
#include "runtime/image/unwind.h"
#include "runtime/process/paused_memory.h"

namespace mdl::patch {

struct ReturnPlaces {
  std::vector<uint64_t> known;
  uint64_t unread = 0;  // what could not be read of a stack, if anything, begins here: there may be others
};

// The places at which the frames of the thread's callers execute; when the walk does not reach its end, also
// the words on its stack beyond what is known of it, and, when that may be an alternate one, those of the
// thread's own stack.
ReturnPlaces return_places(const arch::ThreadRegisters& registers, std::span<const image::Mapping> mappings,
                           const image::Memory& memory, const image::Unwinder& unwinder);
// Likewise, of a stack that was walked.
ReturnPlaces return_places(const arch::ThreadRegisters& registers, std::span<const image::Mapping> mappings,
                           const image::Memory& memory, const image::Stack& stack);

// The stacks of threads that stay stopped, each walked once.
class WalkedStacks {
 public:
  WalkedStacks(const image::Unwinder& unwinder, const process::PausedMemory& memory)
      : unwinder_(unwinder), memory_(memory) {}
  const process::PausedMemory& memory() const { return memory_; }
  const image::Stack& of(pid_t tid, const arch::ThreadRegisters& registers);
  void forget() { stacks_.clear(); }  // they run, or were moved

 private:
  const image::Unwinder& unwinder_;
  const process::PausedMemory& memory_;
  std::map<pid_t, image::Stack> stacks_;
};

}  // namespace mdl::patch
