// Changing code in place, where somebody else has changed it, too (kernel/edit.h).
#pragma once

#include "runtime/process/target_memory.h"

namespace mdl::patch {

using kernel::Edit;
using kernel::Edited;

// An edit of bytes in some of which somebody has set breakpoints since: made around them, so that what is
// left is `to` with these breakpoints, as if they had been there first. False when the bytes differ
// otherwise; nothing is changed then.
bool edit_around_breakpoints(const Edit& edit, const process::TargetMemory& memory);

}  // namespace mdl::patch
