// The time stamp counter as a wall clock: TSC of the Intel SDM, volume 3, 18.17.
#include "runtime/arch/x86_64/clock.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <string>

#include "runtime/kernel/proc_file.h"

namespace mdl::arch {
namespace {

constexpr uint64_t kBaseline = 20'000'000;     // ns; a pair of readings is some 50 ns apart: 5 in a million
constexpr Tolerance kSameCounter{1e-4, 2000};  // between processors

bool is_invariant() {  // CPUID 0x80000007, edx bit 8
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

// Clocks of the kernel that are computed from the counter, by what the hypervisor says of it.
constexpr std::string_view kComputedFromCounter[] = {"kvm-clock", "hyperv_clocksource_tsc_page", "xen"};

// Over what is left of the baseline.
uint64_t rate_since(const ClockPair& since) {
  const uint64_t passed = monotonic_ns() - since.ns;
  if (passed < kBaseline) {
    timespec rest{0, static_cast<long>(kBaseline - passed)};
    nanosleep(&rest, nullptr);
  }
  const ClockPair now = read_clocks();
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{now.ticks - since.ticks} * 1'000'000'000 / (now.ns - since.ns));
}

// This thread visits all processors that it may use. Their counters are the same to some nanoseconds, or as
// far apart as the moments at which they were started.
Result<void> compare_on_all(const ClockPair& since) {
  const uint64_t rate = rate_since(since);
  const ClockPair here = read_clocks();  // not `since`, which may be seconds ago
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return Error{"wall timers need to be told on which processors the time stamp counter can be compared"};
  Result<void> out;
  for (size_t i = 0; i < CPU_SETSIZE && out; i++) {
    if (!CPU_ISSET(i, &allowed)) continue;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) continue;  // it was taken out just now
    const ClockPair now = read_clocks();
    if (!agree(here, now, rate, kSameCounter))
      out = Error{fmt::format(
          "wall timers need a time stamp counter that counts evenly, and that of processor {} does "
          "not agree with the system's clock",
          i)};
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
  return out;
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

Result<void> check_wall_clock(const CounterFacts& facts, const ClockPair& since) {
  if (!facts.invariant)
    return Error{
        "wall timers need a time stamp counter that counts evenly, and this processor does not promise that "
        "(CPUID 0x80000007: no invariant TSC)"};
  if (facts.available.empty() || facts.available.find("tsc") == 0 ||
      facts.available.find(" tsc") != std::string_view::npos)
    return {};
  const auto is_current = [&](std::string_view name) { return facts.current.starts_with(name); };
  if (std::ranges::any_of(kComputedFromCounter, is_current)) return facts.compared(since);
  return Error{
      "wall timers need a time stamp counter that counts evenly, and the kernel has found it unstable (tsc "
      "is "
      "not in /sys/devices/system/clocksource/clocksource0/available_clocksource)"};
}

Result<uint64_t> ticks_per_second(const ClockPair& since) {
  const std::string sources = "/sys/devices/system/clocksource/clocksource0/";
  const std::string available = kernel::system_text(sources + "available_clocksource");
  const std::string current = kernel::system_text(sources + "current_clocksource");
  const CounterFacts facts{is_invariant(), available, current, compare_on_all};
  if (auto ok = check_wall_clock(facts, since); !ok) return ok.error();
  return rate_since(since);
}

}  // namespace mdl::arch
