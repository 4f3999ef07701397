// Where values live in the target: the data region of a session.
//
//   page 0      header: overflow count, exit rendezvous, ended threads (kHeader…)
//   directory   `slots` entries of 16 bytes {thread pointer, block}; 0 = free
//   blocks      `slots` blocks of `stride` bytes; behind them the overflow block, the block of the ended
//               (the sum of what did not fit into the ring), the block of the taken (the sum of what the
//               injector took)
//   ended       `ended` blocks: copies of blocks whose thread has ended, a ring
//   running     where durations are measured: the calls that run (resident_entries.inc)
//
// A block begins with a header: anomalies that are not told apart, the thread's id, sequence and origin of a
// copy; where hit times are kept, those and the thread's clock (arch/hit_time.h); the depths of what
// waits at tail jumps and of armed calls. The cells follow, by group (format/kinds.h), with words for
// anomalies in front of the keys; then the list of what waits at tail jumps, where something does. Blocks are
// as far apart as two cache lines, so that no two threads write the same one (or the pair that the prefetcher
// takes together). The region is private memory that the kernel fills on demand, so slots that no thread uses
// cost nothing. A slot names its block by address: later chunks of blocks can lie elsewhere.
//
// When a thread pointer is used again, the new thread finds the old one's block. It copies it to the
// ring, from which the injector takes it, and clears it; when the ring is full, it adds counters and
// timers up in the block of the ended (resident.S, mdl_resident_renew).
//
// The news, where forks are followed: one page that a process shares with all its descendants. A child that
// waits to be measured writes its pid to the ring, as it knows itself: a hint, found again by looking.
//
// Where the words of all these are, arch/target_data.h says.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/arch/point.h"
#include "runtime/arch/target_data.h"
#include "runtime/focus/request.h"

namespace mdl::resident {

inline constexpr uint32_t kMostSlots = 65536;
inline constexpr uint32_t kMostEnded = 1024;  // threads that may end between two looks of the injector
inline constexpr focus::CellId kSpareCell = UINT32_MAX;

// Room for cells of requests that come while the session runs (spare_cells.h).
struct SpareCells {
  uint32_t flags = 0, timers = 0;
  uint32_t words = 0;  // for sums, samples and spans
  uint32_t extremes = 0, keys = 0;
  uint32_t entries = 0;  // with the table of the calls that run
};

struct Layout {
  uint32_t slots = 0;           // a power of two
  uint64_t stride = 0;          // bytes from block to block
  std::vector<uint32_t> cells;  // offset of each focus::CellId in a block
  // Where each kind begins in a block; flags begin right behind the header.
  uint64_t timers = 0, calls = 0, sums = 0, cells_end = 0, extremes_end = 0;
  std::vector<focus::CellId> timer_cells;  // by offset; kSpareCell where a timer may come later
  uint32_t ended = 0;                      // entries of the ring, a power of two
  uint32_t thread_at = 0;                  // arch::Lookup::thread_at
  // Anomalies, as sums: for each flag and then each timer, in the order in which they lie, {frames that
  // vanished, others}; then words for the functions of some (RaisedCell::words). Both 0: they are not told
  // apart.
  uint64_t anomalies = 0, anomalies_end = 0;
  uint64_t deferred = 0;        // arch::ResidentParameters::deferred
  bool keeps_hit_time = false;  // arch::HitTime
  bool times_calls = false;     // there is a table of the calls that run

  uint64_t directory() const { return kHeaderSize; }
  uint64_t blocks() const { return kHeaderSize + slots * kSlotSize; }
  uint64_t block(uint64_t index) const { return blocks() + index * stride; }
  uint64_t overflow_block() const { return block(slots); }
  uint64_t ended_block() const { return block(slots + uint64_t{1}); }
  uint64_t taken_block() const { return block(slots + uint64_t{2}); }  // its sequence: how many were taken
  uint64_t ring() const { return block(slots + uint64_t{3}); }
  uint64_t running() const;  // where the table of the calls that run begins, if there is one
  uint64_t size() const;     // whole pages
  // The anomalies of the flag or timer at this offset: where the words are, and which of
  // Snapshot::anomaly_words they are.
  uint64_t anomalies_of(uint32_t cell) const {
    return anomalies + (cell < timers ? cell - kBlockHeader : timers - kBlockHeader + (cell - timers) / 2);
  }
  size_t anomaly_word(uint32_t cell) const { return (anomalies_of(cell) - anomalies) / 8; }
};

// Room for `threads` threads now and as many as can be expected later. `defers`: and for what waits at tail
// jumps. `function_words`: for anomalies of single functions; there may be no room for them, or for any. `most`: bytes
// for which fewer threads are expected later, as far as that is enough.
Layout make_layout(std::span<const focus::CellSlot> cells, size_t threads, bool defers = false,
                   size_t function_words = 0, const SpareCells& spare = {}, uint64_t most = UINT64_MAX);
// How many words there are for flags and timers: where those of functions begin.
size_t anomaly_pairs(std::span<const focus::CellSlot> cells);

// The two words by which code at entries and exits follows a flag or timer.
arch::Raised raised_cell(const Layout& layout, focus::CellId cell, format::CellKind kind);

// The directory as it is written when the region is new: every slot free, its block known.
std::vector<uint64_t> empty_directory(const Layout& layout, uint64_t base);

// The slot that a thread's code will find, in a directory as read from the target: its own, or the free one
// where it would be claimed; `slots` when there is none.
uint32_t find_slot(std::span<const uint64_t> directory, uint64_t thread_pointer);

}  // namespace mdl::resident
