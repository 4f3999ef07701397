// The machine's counter, which wall timers read, as a clock.
//
// It is one where it counts evenly, and the same on all processors. The processor says whether it does, and
// the kernel whether it found so. A kernel that runs in a virtual machine may not say that, though its own
// clock is computed from the counter, by the parameters of the hypervisor (kvm-clock and its like); there it
// is compared with the system's clock on each processor. Such a machine may be moved to another host at any
// moment, and any machine may sleep: a session compares the two for as long as it runs.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace mdl::arch {

uint64_t wall_ticks();
uint64_t monotonic_ns();  // CLOCK_MONOTONIC

// One reading of the counter and of CLOCK_MONOTONIC, as close to each other as it gets.
struct ClockPair {
  uint64_t ticks = 0;
  uint64_t ns = 0;
};
ClockPair read_clocks();

// How fast it counts, measured over what is left of 20 ms since `since`; an error when it is no clock on this
// machine.
Result<uint64_t> ticks_per_second(const ClockPair& since);

// Whether the counter has counted at this rate between two readings.
struct Tolerance {
  double part = 1e-3;  // a system's clock may be adjusted
  double ns = 100e3;
};
bool agree(const ClockPair& before, const ClockPair& now, uint64_t ticks_per_second, Tolerance most = {});

// The time that a cycle of this processor takes now: its clock may be another one than the counter's.
double picoseconds_per_cycle();

}  // namespace mdl::arch
