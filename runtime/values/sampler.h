// Snapshots with their times.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "runtime/values/values.h"

namespace mdl::values {

// Both clocks at one moment: the wall clock labels samples, the steady one measures.
struct Moment {
  uint64_t wall_ns = 0;
  uint64_t steady_ns = 0;
};
Moment now();

// 0 where `to` is not later.
double seconds(Moment from, Moment to);

struct Sample {
  Moment at;
  double elapsed_s = 0;  // since the start
  Snapshot values;
  bool complete = true;  // false: the target ended before its last values could be read
};

class Sampler {
 public:
  // `start`: when everything was inserted and all values were zero.
  Sampler(BlockLayout layout, Moment start);

  Result<Sample> sample(const image::Memory& memory, Clocks& clocks, Moment at);
  // As of the collector.
  void change(BlockLayout layout, const std::vector<std::optional<uint32_t>>& kept,
              const std::vector<std::pair<uint64_t, uint64_t>>& cleared);
  // The last totals once more, marked incomplete: the memory is gone.
  Sample repeat(Moment at) const;
  // To be written to the target after a sample (values.h).
  Collector& collector() { return collector_; }
  const Collector& collector() const { return collector_; }

 private:
  Collector collector_;
  Moment start_;
  Snapshot last_;
};

}  // namespace mdl::values
