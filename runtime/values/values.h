// Values, read from outside (decision 10 of the architecture): what the threads' blocks hold,
// folded over the threads.
//
// The memory is the target's, which may have written anything over it: nothing read from it
// is used as an address, a size or a count. Where a block lies is computed from the layout;
// the address that a slot holds is only compared with it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "format/kinds.h"
#include "runtime/image/memory.h"

namespace mdl::values {

inline constexpr uint64_t kSlotBytes = 16;         // {u64 thread pointer, u64 block}; pointer 0: free
inline constexpr uint64_t kBlockHeaderBytes = 64;  // {u64 anomalies, 7 reserved}; cells follow

// A cell that is reported, and how the threads' values of it combine.
struct CellPlace {
  format::CellKind kind = format::CellKind::counter;
  uint32_t offset = 0;  // in a block
  format::Aggregate aggregate = format::Aggregate::sum;
  uint32_t base = 0;  // of a span: the offset of what it follows
};

struct BlockLayout {
  uint64_t directory = 0;         // address of the first slot
  uint32_t slots = 0;             // number of slots, and of blocks less one
  uint64_t blocks = 0;            // address of slot 0's block; slot i's is i strides on
  uint64_t stride = 0;            // bytes from block to block
  uint64_t overflow_address = 0;  // u64: how often a thread found no slot and took the last block
  std::vector<CellPlace> cells;
};

struct Snapshot {
  std::vector<int64_t> cells;  // as BlockLayout::cells; sums wrap, averages truncate
  // Spans that changed each time they were looked at, so that they and their bases did not fit together:
  // what is in `cells` is not their value. By index, ascending.
  std::vector<size_t> unsettled;
  uint64_t anomalies = 0;  // over all blocks
  uint32_t threads = 0;    // that own a block
  uint64_t overflows = 0;  // beyond zero, threads without a slot share the last block, as one thread
};

// Fails when the memory cannot be read (the process has ended or executed another program) and
// when it is not what was put there; the error says which.
Result<Snapshot> read_values(const BlockLayout& layout, const image::Memory& memory);

}  // namespace mdl::values
