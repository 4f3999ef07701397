// What an mdl-inject that was killed has left in a process: nobody reads it any more, so the next one takes it out.
#pragma once

#include "runtime/image/memory.h"
#include "runtime/resident/footprint.h"

namespace mdl::patch {

// Whether the mdl-inject that made the session still runs.
bool has_owner(const resident::Journal& journal);

// True of a session whose injector is not there any more and did not mean to leave it. False where that is not known:
// of one that was left on purpose (--detach), one that was killed while it changed code, and one whose journal the
// process has damaged. Where the lock on the process is not held (process/lock.h), it may be one that begins just now.
bool is_left_behind(const resident::Footprint& session, const image::Memory& memory);

}  // namespace mdl::patch
