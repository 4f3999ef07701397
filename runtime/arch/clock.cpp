#include "runtime/arch/clock.h"

#include <cmath>
#include <ctime>

namespace mdl::arch {
namespace {

constexpr int kReadings = 16;  // of which the closest pair counts

}  // namespace

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

ClockPair read_clocks() {
  ClockPair best;
  uint64_t closest = UINT64_MAX;
  for (int i = 0; i < kReadings; i++) {
    uint64_t before = wall_ticks(), ns = monotonic_ns(), after = wall_ticks();
    if (after - before >= closest) continue;
    closest = after - before;
    best = {before + closest / 2, ns};
  }
  return best;
}

bool agree(const ClockPair& before, const ClockPair& now, uint64_t ticks_per_second, Tolerance most) {
  const double ns = static_cast<double>(now.ns - before.ns);
  const double counted = static_cast<double>(static_cast<int64_t>(now.ticks - before.ticks)) * 1e9 /
                         static_cast<double>(ticks_per_second);
  return std::abs(counted - ns) <= most.part * ns + most.ns;
}

}  // namespace mdl::arch
