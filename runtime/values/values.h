// Values, read from outside (decision 10 of the architecture): what the threads' blocks hold,
// folded over the threads.
//
// The memory is the target's, which may have written anything over it: nothing read from it
// is used as an address, a size or a count. Where a block lies is computed from the layout;
// the address that a slot holds is only compared with it.
//
// A thread that has ended leaves its block to the next one with its thread pointer; a copy of what it held
// goes through a ring (resident/layout.h). Blocks are read first, then the copies: a block that is being
// handed over while it is read is in the ring by then, and the copy counts in its place.
//
// A timer that runs holds what it had less the clock at its start (format/kinds.h). The clock that is added
// is always read before the value: so what is reported is never more than what the timer had when it was
// read, and, since a thread's value never falls here, never less than was reported before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/kinds.h"
#include "runtime/image/memory.h"
#include "runtime/values/clocks.h"
#include "runtime/values/distribution.h"
#include "runtime/values/fold.h"
#include "runtime/values/sparse_words.h"

namespace mdl::values {

inline constexpr uint64_t kRenewed = UINT64_MAX;  // thread id of a block that is being handed over

// The threads whose values a request is about.
enum class Whose : uint8_t { all, each, one };

// A cell that is reported, and how the threads' values of it combine.
struct CellPlace {
  format::CellKind kind = format::CellKind::counter;
  uint32_t offset = 0;  // in a block
  format::Aggregate aggregate = format::Aggregate::sum;
  format::Event event = format::Event::minor_faults;
  Whose whose = Whose::all;
  uint64_t thread = 0;  // of Whose::one
  uint32_t base = 0;    // of a span: the offset of what it follows
  format::CellKind base_kind = format::CellKind::counter;

  // The kind of the values: of a span, that of its base.
  format::CellKind value_kind() const { return kind == format::CellKind::span_ ? base_kind : kind; }
};

struct BlockLayout {
  uint64_t directory = 0;         // address of the first slot
  uint32_t slots = 0;             // number of slots
  uint64_t blocks = 0;            // address of slot 0's block; slot i's is i strides on; behind them:
                                  // the overflow block, the block of the ended, that of the taken
  uint64_t stride = 0;            // bytes from block to block
  uint64_t overflow_address = 0;  // u64: how often a thread found no slot and took the overflow block
  uint64_t confined_address = 0;  // u64: kHeaderConfined
  uint64_t borrowed_address = 0;  // u64: kHeaderBorrowed
  uint64_t ring = 0;              // address of the first copy of an ended thread's block
  uint32_t ring_entries = 0;      // a power of two; 0 = there are none
  uint64_t ended_address = 0;     // u64 x 2: copies made, copies that found no room
  uint64_t timers = 0, calls = 0, sums = 0, cells_end = 0;  // where kinds of cells begin in a block
  uint64_t extremes_end = 0;                                // extremes begin at cells_end
  uint64_t anomalies = 0, anomalies_end = 0;                // words that are such, besides the header's
  uint64_t ticks_per_second = 0;                            // of wall timers
  bool identified = false;      // a thread's id is in its block before it counts anything
  bool keeps_hit_time = false;  // a thread's clock is behind by what its hits have taken (arch::HitTime)
  std::vector<CellPlace> cells;
};

struct ThreadValue {
  uint64_t thread = 0;
  int64_t value = 0;
};

// By index of BlockLayout::cells, and by thread for Whose::each, else 0.
using Distributions = std::map<std::pair<size_t, uint64_t>, Observations>;

struct Snapshot {
  std::vector<int64_t> cells;                  // as BlockLayout::cells; sums wrap, averages truncate
  std::vector<std::vector<ThreadValue>> each;  // as BlockLayout::cells, for Whose::each; by thread
  std::vector<int64_t> counts;                 // as BlockLayout::cells: of how many threads
  Distributions distributions;                 // of cells that have one; `cells` has the sum
  // Spans that changed each time they were looked at, so that they and their bases did not fit together:
  // what is in `cells` is not their value. By index, ascending.
  std::vector<size_t> unsettled;
  uint64_t anomalies = 0;               // over all blocks, those of the words, too
  std::vector<uint64_t> anomaly_words;  // over all blocks
  uint32_t threads = 0;                 // that own a block
  uint64_t overflows = 0;               // beyond zero, threads without a slot share a block, as one thread
  uint64_t unrecorded = 0;              // threads that ended so fast that only sums of their values are known
  uint64_t taken_ns = 0;                // what hits have taken of all threads' time, where that is kept

  const Observations& observed(size_t cell, uint64_t thread) const;  // nothing where there is none
};

// Reads again and again, and remembers threads that have ended.
class Collector {
 public:
  explicit Collector(BlockLayout layout);

  // Goes on with other cells of the same blocks. `kept`: by the new cells, which one of those before each is.
  // `cleared`: words of blocks {first, end} that are zero now, because nobody has them any more; no copy of a
  // block waits to be taken.
  void change(BlockLayout layout, const std::vector<std::optional<uint32_t>>& kept,
              const std::vector<std::pair<uint64_t, uint64_t>>& cleared);

  // Fails when the memory cannot be read (the process has ended or executed another program) and
  // when it is not what was put there; the error says which.
  Result<Snapshot> read(const image::Memory& memory, Clocks& clocks);

  // Whether copies of ended threads should be taken before the next read, for there are many. `made`: the first word at
  // ended_address.
  bool has_many(uint64_t made) const;
  // Takes those only, then.
  Result<void> drain(const image::Memory& memory, uint64_t made);

  // The hits of each thread of the last read, where hit times are kept: the time that they have taken by now,
  // in ticks, and the request of the last one.
  struct Hit {
    uint32_t slot = 0;
    uint64_t taken = 0;
    std::optional<uint32_t> request;
  };
  std::vector<Hit> hits(const image::Memory& memory) const;

  // The words that are to be written over the block of the taken after a read, so that the ring's entries are
  // free again and their sums are not lost to another reader. Empty when nothing was taken.
  uint64_t taken_address() const;
  std::vector<uint64_t> taken();

 private:
  using Words = std::vector<uint64_t>;  // of a block
  struct Living {                       // a thread whose block was read
    uint64_t id = 0;
    std::vector<int64_t> last;  // as BlockLayout::cells
  };
  struct Seen {  // a thread's block in this read
    uint32_t slot = 0;
    Words words;
  };
  struct Kept {  // the same, until all are read
    uint32_t slot = 0;
    uint64_t thread = 0;
    SparseWords words;
  };

  Result<Words> read_block(const image::Memory& memory, uint64_t address) const;
  Result<void> read_header(const image::Memory& memory);
  bool exceeds(uint64_t bytes, uint64_t of_ended, Clocks& clocks) const;
  Result<void> keep(uint32_t slot, const Words& words, Clocks& clocks);
  Result<void> read_slots(const image::Memory& memory, uint32_t first, uint32_t count, Clocks& clocks);
  Result<void> read_ring(const image::Memory& memory);
  void keep_ended(size_t cell, uint64_t thread, int64_t value);
  void add_to_nobody(size_t cell, int64_t value);
  void take(const Words& copy, uint32_t slot);
  int64_t ended_value(const Words& copy, uint32_t slot, size_t cell) const;
  // The value that was last seen of a thread, where that is kept: a timer never falls.
  int64_t last_value(uint32_t slot, uint64_t thread, size_t cell) const;
  // A clock of the thread, less what its hits have taken by now; `clock` was read before.
  std::optional<uint64_t> less_taken(const image::Memory& memory, const Seen& seen, const ClockOf& of,
                                     uint64_t clock) const;
  class Reading;  // of a thread's cells
  Result<void> fold_living(const image::Memory& memory, Clocks& clocks, Snapshot& out);
  Result<void> fold_overflow(const image::Memory& memory, Snapshot& out);
  void fold_sums(const Words& words, Snapshot& out);
  // Adds a block's histograms; `thread`: none where it is of several threads.
  void distribute(const Words& words, std::optional<uint64_t> thread, Distributions& into) const;
  // `times`: 1, or -1 to take them away.
  void count_anomalies(const Words& words, Snapshot& out, uint64_t times = 1) const;
  void finish(Snapshot& out);
  uint64_t slot_address(uint64_t slot) const { return layout_.blocks + slot * layout_.stride; }
  int64_t in_units(const CellPlace& cell, int64_t value) const;
  uint64_t taken_ns(const Words& words) const;
  uint64_t wall_of(const Words& words) const;

  BlockLayout layout_;
  Result<void> layout_is_sound_;
  bool has_timers_ = false;
  std::vector<size_t> folded_;  // indices of cells that have a distribution
  // The state of one read:
  uint64_t wall_ = 0, made_ = 0, unrecorded_ = 0, overflows_ = 0;
  std::vector<Kept> seen_;
  uint64_t read_bytes_ = 0, kept_bytes_ = 0;       // of their blocks
  std::vector<Fold> folds_;                        // as BlockLayout::cells
  std::vector<std::map<uint64_t, int64_t>> each_;  // likewise, by thread
  Distributions distributions_;
  // From read to read:
  std::map<uint32_t, Living> living_;  // by slot
  std::vector<Fold> ended_;            // of threads that have ended
  std::vector<std::map<uint64_t, int64_t>> each_ended_;
  size_t each_ended_size_ = 0;  // of all of them
  Distributions distributions_ended_;
  Words earlier_;             // the block of the taken at the first read: another injector's
  Words taken_;               // the same, and what was taken since
  std::set<uint64_t> ahead_;  // copies taken that one which is not complete yet lies in front of
  bool changed_ = false;      // taken_ is not what lies in the target
};

// One read, for who comes later. Threads that ended before count in sums only.
Result<Snapshot> read_values(const BlockLayout& layout, const image::Memory& memory, Clocks& clocks);

}  // namespace mdl::values
