// From snapshots to samples: totals, differences to the sample before, rates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "runtime/values/values.h"

namespace mdl::values {

// Both clocks at one moment: the wall clock labels samples, the steady one measures.
struct Moment {
  uint64_t wall_ns = 0;
  uint64_t steady_ns = 0;
};
Moment now();

struct Value {
  int64_t total = 0;
  int64_t delta = 0;  // since the sample before; since the start in the first
  // Delta per second. The first sample has none: its delta was counted since the insertion, which is before
  // the start. Nor has one that follows another within a millisecond.
  std::optional<double> rate;
};

struct Sample {
  Moment at;
  double elapsed_s = 0;  // since the start
  std::vector<Value> values;
  std::vector<std::map<uint64_t, Value>> each;  // as BlockLayout::cells: by thread, for Whose::each
  std::vector<int64_t> counts;                  // as in Snapshot
  uint64_t anomalies = 0;
  std::vector<uint64_t> anomaly_words;  // as in Snapshot
  uint32_t threads = 0;
  uint64_t overflows = 0;
  uint64_t unrecorded = 0;
  uint64_t taken_ns = 0;
  bool complete = true;  // false: the target ended before its last values could be read
};

class Sampler {
 public:
  // `start`: when everything was inserted and all values were zero.
  Sampler(BlockLayout layout, Moment start);

  Result<Sample> sample(const image::Memory& memory, Clocks& clocks, Moment at);
  // The last totals once more, marked incomplete: the memory is gone.
  Sample repeat(Moment at) const;
  // To be written to the target after a sample (values.h).
  Collector& collector() { return collector_; }

 private:
  Sample make(const Snapshot& snapshot, Moment at) const;

  Collector collector_;
  Moment start_;
  Moment last_at_;
  bool is_first_ = true;
  Snapshot last_;
  std::vector<std::map<uint64_t, int64_t>> last_each_;
};

}  // namespace mdl::values
