// Writing to the memory of another process. Nothing else writes there.
//
// Code is changed by edits: each says which bytes it expects, and one write makes all edits of a page. Such
// a write is inside one page and so is whole, also when the writer is killed: the kernel copies it in one
// piece. Every write is read back, some pages at a time. Bytes that are neither what an edit expects nor what it makes of them
// belong to somebody else and are never touched.
//
// Data that belongs to the injector, and code that no thread executes yet, is overwritten as it is.
//
// A broker writes whatever it is asked to, to processes of its family only (rights.h): their owner may write
// there himself. The second opinion on an edit is the audit's (runtime/audit/).
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

// The smallest page there is, so a write in it is in one page of any size.
inline constexpr uint64_t kPage = 4096;
inline uint64_t page_of(const Edit& edit) {
  return edit.address / kPage;
}

struct Edited {
  std::vector<size_t> changed;  // indices of the edits that were made
  std::vector<size_t> foreign;  // neither `from` nor `to` is there, or nothing can be read
  bool failed = false;          // a write was refused or did not read back; of later pages not all were tried
};

// `writer`: of memory.h. `edits` by address. `only_look`: change nothing, `changed` says what would be.
Edited apply_edits(uint32_t writer, std::span<const Edit> edits, bool only_look = false);

// Writes all of `bytes` and reads them back; false when they are not there afterwards.
bool overwrite(uint32_t writer, uint64_t address, std::span<const std::byte> bytes);

}  // namespace mdl::kernel
