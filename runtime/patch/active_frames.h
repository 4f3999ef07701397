// Frames that are active when the code is inserted count as entered (architecture, decision 5).
//
// All threads are stopped. Their stacks are walked; for each frame in a function that raises a flag or starts
// a timer, and each call in flight that one does this around, the thread's block gets what it would hold had
// the code been there when the frame began. Calls that are armed at their entry are armed now.
#pragma once

#include <map>

#include "base/result.h"
#include "runtime/arch/thread_registers.h"
#include "runtime/image/unwind.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

using Regs = std::map<pid_t, arch::ThreadRegisters>;

// Writes the blocks of the threads with active frames, and counts those frames in `out`, which also gets a
// warning for each stack that could not be walked to its end. False when the time was over for which the
// threads may stand: then nothing was written.
Result<bool> count_active(const InsertInput& input, const process::TargetMemory& memory,
                          process::PausedMemory& now, const Stage& stage, const image::Unwinder& unwinder,
                          const Regs& regs, Inserted& out);

}  // namespace mdl::patch
