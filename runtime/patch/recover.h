// The windows of a session whose journal is lost: what the target has overwritten, or an injector that
// was killed had not written yet.
//
// A window is a jump or a call into the session's memory that the file behind the code does not have, or a
// short jump to such a jump. Every
// executable private mapping of a file is compared with its file; what differs otherwise is somebody else's
// and is left alone. Without that comparison nothing may be unmapped: one forgotten jump would end the
// target.
#pragma once

#include <vector>

#include "base/result.h"
#include "runtime/image/image.h"
#include "runtime/image/memory.h"
#include "runtime/resident/footprint.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

// By address. An error when the file of a mapping that differs cannot be read.
Result<std::vector<resident::PatchedWindow>> find_windows(const image::Image& image,
                                                          const resident::Footprint& session,
                                                          const image::Memory& memory);

// An error when code that a removal would put back by this journal is not what the files behind it hold: the
// journal comes from the target, which must not write by our hand what it may not write itself.
Result<void> check_originals(const image::Image& image, const std::vector<resident::PatchedWindow>& windows,
                             const std::vector<resident::PatchedFile>& files, const image::Memory& memory);

}  // namespace mdl::patch
