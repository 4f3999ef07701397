// The second half of an insertion, of a stage that is mapped and written: from the first stop to the last
// thread let go.
//
// All threads stop. The bytes to be replaced are compared with those that were decoded, threads inside a
// window are moved to the trampoline, flags of active frames are set, the windows are written one by one and
// read back, and the threads are let go. Where an address on some stack points into a window, it waits for
// the frame to end, with the threads let go in between; who does not end has its function refused.
//
// Where the stage replaces a session's code, the same stop takes the old code out first: when no thread is
// inside of it, the original bytes are put back, and from there on it is an insertion. Before its windows are
// written, the pages of stubs that it takes over are. What cannot be done without waiting is not done: the old
// code is put in again, and all of it is tried anew.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

// An error when the code to be replaced is not what was read, or something else is mapped there. `mappings`: as
// they are now.
Result<void> check_unchanged(const InsertInput& input, const process::TargetMemory& memory,
                             const Stage& stage, const std::vector<image::Mapping>& mappings);

// The session whose code a stage replaces.
struct Replaced {
  const resident::Journal& session;
  // The mappings that only its old code needs, when the new one is in place.
  std::function<std::vector<image::Range>(const std::vector<image::Mapping>&)> old_code;
  // Both are called while no thread runs and none is inside. Before anything changes: false when it must be
  // tried again. And when all is in place.
  std::function<Result<bool>()> first_look;
  std::function<Result<void>()> last_look;
  std::vector<image::Range> old_tables = {};  // of keys, likewise
};

// After an error, Stage::code_written says whether some of the windows may be in place.
// `replaced`: null, or of a stage that replaces it; after an error the session's old code is in place.
Result<void> commit(const InsertInput& input, const process::TargetMemory& memory, Stage& stage,
                    Inserted& out, const Replaced* replaced = nullptr);

}  // namespace mdl::patch
