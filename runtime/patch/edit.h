// Changing code in place: a few bytes at many places, one write for all that lie in one page.
//
// Each write is inside one page and so is whole, also when the writer is killed: the kernel copies
// it in one piece. What is written is read back. Bytes that are neither what an edit expects nor
// what it makes of them belong to somebody else and are never touched.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/process/target_memory.h"

namespace mdl::patch {

struct Edit {
  uint64_t address = 0;
  std::span<const uint8_t> from;  // as long as `to`, in one page
  std::span<const uint8_t> to;
};

struct Edited {
  std::vector<size_t> changed;  // indices of the edits that were made
  std::vector<size_t> foreign;  // neither `from` nor `to` is there, or nothing can be read
  bool failed = false;          // a write was refused or did not read back; later pages were not tried
};

// `edits` by address. `only_look`: change nothing, `changed` says what would be.
Edited apply_edits(std::span<const Edit> edits, const process::TargetMemory& memory, bool only_look = false);

// An edit of bytes in some of which somebody has set breakpoints since: made around them, so that what is
// left is `to` with these breakpoints, as if they had been there first. False when the bytes differ
// otherwise; nothing is changed then.
bool edit_around_breakpoints(const Edit& edit, const process::TargetMemory& memory);

}  // namespace mdl::patch
