// The time stamp counter as a wall clock: TSC of the Intel SDM, volume 3, 18.17.
#include <cpuid.h>
#include <fmt/format.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/read_text.h"
#include "runtime/arch/arch.h"

namespace mdl::arch {
namespace {

constexpr uint64_t kBaseline = 20'000'000;  // ns; a pair of readings is some 50 ns apart: 5 in a million
constexpr int kReadings = 16;               // of which the closest pair counts

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool is_invariant() {  // CPUID 0x80000007, edx bit 8
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

}  // namespace

uint64_t wall_ticks() {
  return __rdtsc();
}

// A multiplication waits for the last one and takes three cycles on every x86-64 of the last 15 years. The
// middle one of several runs: one may be disturbed, and the clock may be higher for a moment.
double picoseconds_per_cycle() {
  constexpr uint64_t kRounds = 20000, kMultiplications = 4, kLatency = 3;
  std::array<uint64_t, 5> runs{};
  uint64_t x = 3;
  for (uint64_t& run : runs) {
    const uint64_t before = monotonic_ns();
    for (uint64_t i = 0; i < kRounds; i++)
      asm volatile("imulq %0, %0\n\timulq %0, %0\n\timulq %0, %0\n\timulq %0, %0" : "+r"(x));
    run = monotonic_ns() - before;
  }
  std::nth_element(runs.begin(), runs.begin() + 2, runs.end());
  return static_cast<double>(runs[2]) * 1000 / static_cast<double>(kRounds * kMultiplications * kLatency);
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

Result<void> check_wall_clock(bool invariant, std::string_view sources) {
  if (!invariant)
    return Error{
        "wall timers need a time stamp counter that counts evenly, and this processor does not promise that "
        "(CPUID 0x80000007: no invariant TSC)"};
  if (sources.empty() || sources.find("tsc") != std::string_view::npos) return {};
  return Error{
      "wall timers need a time stamp counter that counts evenly, and the kernel has found it unstable (tsc "
      "is "
      "not in /sys/devices/system/clocksource/clocksource0/available_clocksource)"};
}

Result<uint64_t> ticks_per_second(const ClockPair& since) {
  std::string sources = read_text("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  if (auto ok = check_wall_clock(is_invariant(), sources); !ok) return ok.error();
  uint64_t passed = monotonic_ns() - since.ns;
  if (passed < kBaseline) {
    timespec rest{0, static_cast<long>(kBaseline - passed)};
    nanosleep(&rest, nullptr);
  }
  ClockPair now = read_clocks();
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{now.ticks - since.ticks} * 1'000'000'000 / (now.ns - since.ns));
}

}  // namespace mdl::arch
