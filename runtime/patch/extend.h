// Additions to a session while it measures: code for libraries that were loaded later, and its end when they
// are unloaded.
//
// An extension has islands and a journal of its own and uses the session's data: the cells are there already
// (focus/graft.h). Its journal is complete before any code changes, as that of an insertion; find_footprint()
// puts the journals together, so that --remove takes everything out.
//
// A library that was unloaded has taken its windows with it. Memory that the extension mapped for it is given
// back when no thread is inside; nothing is ever written to where the library was.
#pragma once

#include <vector>

#include "base/result.h"
#include "runtime/patch/insert.h"

namespace mdl::patch {

struct Extension {
  std::vector<image::Range> regions;  // mapped for it
  std::vector<resident::PatchedFile> files;
  Inserted inserted;
};

// `input`: its binding is a graft onto the session's, its coverage of the new objects alone. `session` takes
// over the windows. Functions of which a call would have to be armed are refused where the session has armed
// none. An error when another mdl-inject has removed the session meanwhile.
Result<Extension> extend(const InsertInput& input, const process::TargetMemory& memory, uint32_t number,
                         resident::Journal& session);

// Unmaps code of a session to which nothing leads; false when a thread is inside, or cannot be stopped now. The
// lock is held.
bool give_back(const std::vector<image::Range>& regions, const image::Image& image,
               const process::TargetMemory& memory);

// True when nothing of the extension's files is mapped any more.
bool is_unloaded(const Extension& extension, const resident::Journal& session,
                 const std::vector<image::Mapping>& mappings, const image::Memory& memory);
// Gives its memory back; false when a thread is inside, or cannot be stopped now, or the session is not there
// any more: what is mapped at these places by then may be the target's own.
bool forget(const Extension& extension, const resident::Journal& session, const image::Image& image,
            const process::TargetMemory& memory);

}  // namespace mdl::patch
