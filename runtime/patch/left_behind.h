// What an mdl-inject that was killed has left in a process: nobody reads it any more, so the next one takes it out.
#pragma once

#include <string>

#include "runtime/image/memory.h"
#include "runtime/resident/footprint.h"

namespace mdl::patch {

// Whether the ids in it are of another pid namespace, as from a container or into one: here they say nothing.
bool is_elsewhere(const resident::Journal& journal);
// Whether the mdl-inject that made the session still runs. One in a pid namespace that is not to be seen from here may.
enum class Owner { runs, ended, unseen };
Owner owner_of(const resident::Journal& journal);
inline bool has_owner(const resident::Journal& journal) {
  return owner_of(journal) != Owner::ended;
}
// How it is called here: "mdl-inject 4711".
std::string owner_text(const resident::Journal& journal);

// True of a session whose injector is not there any more and did not mean to leave it. False where that is not known:
// of one that was left on purpose (--detach), one that was killed while it changed code, and one whose journal the
// process has damaged. Where the lock on the process is not held (process/lock.h), it may be one that begins just now.
bool is_left_behind(const resident::Footprint& session, const image::Memory& memory);

}  // namespace mdl::patch
