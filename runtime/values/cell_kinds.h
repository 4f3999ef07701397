// The value of a thread in a cell of each kind: the routines beside the numbers in
// format/kinds.h.
//
// A kind whose word is its value, as a counter's is, needs none of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "format/kinds.h"
#include "runtime/values/distribution.h"

namespace mdl::values {

// A cell of a thread that lives.
class CellReading {
 public:
  virtual ~CellReading() = default;
  virtual int64_t word() const = 0;  // the first, as the block was read
  virtual int64_t last() const = 0;  // the value that was read before; 0 where none was
  // The word, and the clock of its kind, which was read before it; nothing when the thread has ended.
  struct Running {
    int64_t word = 0;
    uint64_t clock = 0;
  };
  virtual std::optional<Running> running() = 0;
};

struct CellRoutines {
  int64_t (*read)(CellReading& cell) = nullptr;  // null: the word; also of spans, which are read together
  // The value of a thread that has ended, from its first word and the last value that was read.
  int64_t (*ended)(int64_t word, int64_t last) = nullptr;  // null: the word
  // The value of threads that share a block.
  int64_t (*shared)(int64_t word) = nullptr;  // null: the word
  // The first word with which a fork's child begins; `wall`: the wall clock now.
  // Null: 0 where it is a sum, else the word.
  uint64_t (*anew)(uint64_t word, uint64_t wall) = nullptr;
  // Adds the cell's words to what was observed; null: the value is a number alone.
  void (*fold)(Observations& into, std::span<const uint64_t> words) = nullptr;
  bool is_distribution = false;
};

const CellRoutines& routines(format::CellKind kind);

// Thread clocks are larger by this in the target (format/kinds.h).
inline constexpr uint64_t kAbove = uint64_t{1} << 56;

}  // namespace mdl::values
