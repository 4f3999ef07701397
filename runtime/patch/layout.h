// Where values live in the target: the data region of a session.
//
//   page 0      header: overflow count, exit rendezvous (kHeader… below)
//   directory   `slots` entries of 16 bytes {thread pointer, block}; 0 = free
//   blocks      slots + 1 blocks of `stride` bytes; the last is the overflow block
//
// A block is a 64-byte header {anomalies, 7 reserved} followed by the cells: flags, others, spans. Blocks are
// as far apart as two cache lines, so that no two threads write the same one (or the pair that the prefetcher
// takes together). The region is private memory that the kernel fills on demand, so slots that no thread uses
// cost nothing. A slot names its block by address: later chunks of blocks can lie elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/focus/request.h"

namespace mdl::patch {

inline constexpr uint64_t kHeaderSize = 4096;
inline constexpr uint64_t kHeaderOverflow = 8;  // u64: times a thread found no slot
inline constexpr uint64_t kHeaderExit = 64;     // u64 x 3: the process is at its exit, go on, somebody waits
inline constexpr uint64_t kSlotSize = 16;
inline constexpr uint64_t kBlockHeader = 64;
inline constexpr int64_t kAnomalies = 0;  // in the block

struct Layout {
  uint32_t slots = 0;           // a power of two
  uint64_t stride = 0;          // bytes from block to block
  std::vector<uint32_t> cells;  // offset of each focus::CellId in a block
  uint64_t flag_bytes = 0;      // of flags, which lie together behind the block's header

  uint64_t directory() const { return kHeaderSize; }
  uint64_t blocks() const { return kHeaderSize + slots * kSlotSize; }
  uint64_t block(uint64_t index) const { return blocks() + index * stride; }
  uint64_t size() const;  // whole pages
};

// Room for `threads` threads now and as many as can be expected later.
Layout make_layout(std::span<const focus::CellSlot> cells, size_t threads);

// The directory as it is written when the region is new: every slot free, its block known.
std::vector<uint64_t> empty_directory(const Layout& layout, uint64_t base);

// The slot that a thread's code will find, in a directory as read from the target: its own, or the free one
// where it would be claimed; `slots` when there is none.
uint32_t find_slot(std::span<const uint64_t> directory, uint64_t thread_pointer);

}  // namespace mdl::patch
