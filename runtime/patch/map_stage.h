// The memory of a session in the target: mapped while all threads stand, and written while they run.
//
// The target makes the system calls itself (process/remote.h). The mappings are of a memfd, and private, so
// that the name of the mappings says whose they are; and never in place of a mapping that the target has made
// meanwhile.
#pragma once

#include <chrono>
#include <vector>

#include "base/result.h"
#include "runtime/patch/insert.h"
#include "runtime/patch/stage.h"

namespace mdl::patch {

// Maps the stage's regions in the target, or nothing; writes them and reads them back. `session`: null, or the one that
// is there already.
// `taken` is set when an address was mapped by the target meanwhile: build anew and try again. For how long
// the target stood is added to `paused`.
Result<void> map_stage(const InsertInput& input, const process::TargetMemory& memory, const Stage& stage,
                       const resident::Journal* session, bool& taken, process::Pauses& paused);
Result<void> write_stage(const process::TargetMemory& memory, Stage& stage);

// Unmaps regions of a session by a remote call; the threads must be stopped and outside.
Result<void> unmap(pid_t pid, process::Threads& threads, const process::TargetMemory& memory,
                   const image::Image& image, const std::vector<image::Range>& regions);

}  // namespace mdl::patch
