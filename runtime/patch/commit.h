// The second half of an insertion, of a stage that is mapped and written: from the first stop to the last
// thread let go.
//
// All threads stop. The bytes to be replaced are compared with those that were decoded, threads inside a
// window are moved to the trampoline, flags of active frames are set, the windows are written one by one and
// read back, and the threads are let go. Where an address on some stack points into a window, it waits for
// the frame to end, with the threads let go in between; who does not end has its function refused.
#pragma once

#include "base/result.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

// An error when the code to be replaced is not what was read, or something else is mapped there.
Result<void> check_unchanged(const InsertInput& input, const process::TargetMemory& memory,
                             const Stage& stage);

// After an error, Stage::code_written says whether some of the windows may be in place.
Result<void> commit(const InsertInput& input, const process::TargetMemory& memory, Stage& stage,
                    Inserted& out);

}  // namespace mdl::patch
