// From snapshots to samples: totals, differences to the sample before, rates.
#pragma once

#include <cstdint>
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
  double rate = 0;    // delta per second; 0 when less than a millisecond has passed
};

struct Sample {
  Moment at;
  double elapsed_s = 0;  // since the start
  std::vector<Value> values;
  uint64_t anomalies = 0;
  uint32_t threads = 0;
  uint64_t overflows = 0;
  bool complete = true;  // false: the target ended before its last values could be read
};

class Sampler {
 public:
  // `start`: when everything was inserted and all values were zero.
  Sampler(BlockLayout layout, Moment start);

  Result<Sample> sample(const image::Memory& memory, Moment at);
  // The last totals once more, marked incomplete: the memory is gone.
  Sample repeat(Moment at) const;

 private:
  Sample make(const std::vector<int64_t>& totals, Moment at) const;

  BlockLayout layout_;
  Moment start_;
  Moment last_at_;
  Snapshot last_;
};

}  // namespace mdl::values
