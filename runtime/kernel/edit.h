// Writing to the memory of another process. Nothing else writes there.
//
// Code is changed by edits: each says which bytes it expects, and one write makes all edits of a page. Such
// a write is inside one page and so is whole, also when the writer is killed: the kernel copies it in one
// piece. Every write is read back. Bytes that are neither what an edit expects nor what it makes of them
// belong to somebody else and are never touched.
//
// Data that belongs to the injector, and code that no thread executes yet, is overwritten as it is.
//
// A broker that writes for somebody else has to check
// - of an edit: that `to` is what the audit has admitted for `from` (runtime/audit/), or the way back from
//   it;
// - of what is overwritten: that it lies in a mapping of the injector's own, or is one of the few words
//   outside: the stub of a remote call or of an arrival, in the slack behind code, what was there before,
//   and the word of AT_ENTRY on the stack. All of these it can be told in advance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mdl::kernel {

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

// `memory`: of memory.h. `edits` by address. `only_look`: change nothing, `changed` says what would be.
Edited apply_edits(int memory, std::span<const Edit> edits, bool only_look = false);

// Writes all of `bytes` and reads them back; false when they are not there afterwards.
bool overwrite(int memory, uint64_t address, std::span<const std::byte> bytes);

}  // namespace mdl::kernel
