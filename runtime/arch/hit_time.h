// The time that hits take of a thread is kept in its block, so that timers can leave it out
// (runtime/arch/<target>/hit_time.h).
#pragma once

#include <cstdint>

namespace mdl::arch {

// All in ticks of the wall clock.
struct HitTime {
  bool kept = false;
  double between = 0;  // of a hit that reads the counter first and last and does nothing else: between these,
  double around = 0;   // and outside of them when it saves no register,
  double per_saved = 0;  // and more for each that it does
  double plain = 0;      // of a hit that reads no counter, without its stencils
  double per_cycle = 0;  // of the processor: what is known of stencils is in cycles,
  double per_ns = 0;     // and of routines in nanoseconds
};
// Measured in this process, with the code that emit_point makes, over some milliseconds.
HitTime measure_hit_time(uint64_t ticks_per_second, double ps_per_cycle);

}  // namespace mdl::arch
