// Frames that are active when the code is inserted count as entered (architecture, decision 5).
//
// While all threads stand, their stacks are walked; for each frame in a function that raises a flag or starts a
// timer, and each call in flight that one does this around, the thread's block gets what it would hold had
// the code been there when the frame began. Calls that are armed at their entry are armed now.
#pragma once

#include <map>
#include <memory>

#include "base/result.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/image/unwind.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

using Regs = std::map<pid_t, arch::ThreadRegisters>;

class ActiveFrames {
 public:
  // Which code raises what is looked for here, while the process runs. All outlives it.
  ActiveFrames(const InsertInput& input, const process::TargetMemory& memory, const Stage& stage,
               const image::Unwinder& unwinder);
  ~ActiveFrames();
  ActiveFrames(const ActiveFrames&) = delete;
  ActiveFrames& operator=(const ActiveFrames&) = delete;

  // Functions have been given up since.
  void look_again();
  // Writes the blocks of the threads with active frames, and counts those frames in `out`, which also gets a
  // warning about the stacks that could not be walked to their ends. False when the time was over for which the
  // threads may stand: then nothing was written.
  Result<bool> count(const Regs& regs, process::PausedMemory& now, Inserted& out) const;

  class Raised;  // private to the implementation

 private:
  const InsertInput& input_;
  const process::TargetMemory& memory_;
  const Stage& stage_;
  const image::Unwinder& unwinder_;
  std::unique_ptr<const Raised> raised_;
};

}  // namespace mdl::patch
