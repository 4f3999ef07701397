// Spans as they are read (format/kinds.h says what they are): a span that is open has a value only
// together with its base, and the thread changes both meanwhile. A span that reads the same before and after
// its base is read fits to that base. Where the base is a timer that runs, its value is together with its
// clock, which is read before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/image/memory.h"
#include "runtime/values/values.h"

namespace mdl::values {

inline constexpr uint64_t kOpenBit = uint64_t{1} << 62;

inline bool is_open(uint64_t span) {
  return ((span ^ span << 1) >> 63) != 0;
}
// A closed span with this total, opened.
inline uint64_t open_span(uint64_t total, uint64_t base) {
  return (total - base) ^ kOpenBit;
}
inline int64_t span_value(uint64_t span, uint64_t base) {
  return static_cast<int64_t>(is_open(span) ? (span ^ kOpenBit) + base : span);
}

// The spans of a layout, read thread by thread.
class Spans {
 public:
  // The clock of a timer of the thread that is read; nothing when the thread has ended.
  using Clock = std::function<std::optional<uint64_t>(const ClockOf&)>;
  using Take = std::function<void(size_t cell, int64_t value)>;

  explicit Spans(const BlockLayout& layout);

  bool empty() const { return cells_.empty(); }
  // Reads the spans of the block at `address` and passes each with its index in the layout to `take`.
  // `block` holds the block as it was read a moment ago. False when memory cannot be read.
  bool read(const image::Memory& memory, uint64_t address, std::span<const std::byte> block,
            const Clock& clock, const Take& take);
  std::vector<size_t> unsettled() const { return {unsettled_.begin(), unsettled_.end()}; }

 private:
  struct Cell {
    size_t index;  // in the layout
    uint32_t offset, base;
    size_t clock;  // index into clocks_
  };
  struct BaseClock {
    ClockOf of;
    std::optional<uint64_t> now;
  };
  // The value of a base with this word; nothing when it is a timer that runs in a thread that has ended.
  std::optional<uint64_t> base_value(const Cell& cell, uint64_t word) const;
  bool retry(const image::Memory& memory, uint64_t address, const Cell& cell, const Take& take);

  std::vector<Cell> cells_;
  std::vector<BaseClock> clocks_;  // of a counter, which has none: as if it were a timer that stands
  uint32_t bases_begin_ = 0, bases_end_ = 0, begin_ = 0, end_ = 0;  // in a block
  std::vector<std::byte> bases_, again_;
  std::set<size_t> unsettled_;
};

}  // namespace mdl::values
