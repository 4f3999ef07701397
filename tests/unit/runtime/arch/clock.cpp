// The machine's counter as a clock: when it is refused, and how fast it runs.
#include "runtime/arch/x86_64/clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string_view>

namespace mdl::arch {
namespace {

using testing::HasSubstr;

Result<void> fits(const ClockPair&) {
  return {};
}
Result<void> does_not_fit(const ClockPair&) {
  return Error{"does not agree"};
}

TEST(WallClock, IsRefusedWhereItDoesNotCountEvenly) {
  const auto check = [](const CounterFacts& facts) { return check_wall_clock(facts, {}); };
  EXPECT_TRUE(check({true, "tsc hpet acpi_pm \n", "tsc\n", does_not_fit}));
  EXPECT_TRUE(check({true, "kvm-clock tsc acpi_pm \n", "kvm-clock\n", does_not_fit}));
  EXPECT_TRUE(check({true, "", "", does_not_fit}));
  EXPECT_THAT(check({false, "tsc hpet", "tsc", fits}).error().text, HasSubstr("no invariant TSC"));
  EXPECT_THAT(check({true, "hpet acpi_pm \n", "hpet\n", fits}).error().text, HasSubstr("unstable"));
}

TEST(WallClock, IsComparedWhereOnlyTheHypervisorPromisesIt) {
  const auto check = [](const CounterFacts& facts) { return check_wall_clock(facts, {}); };
  for (std::string_view clock :
       {"kvm-clock \n", "hyperv_clocksource_tsc_page hyperv_clocksource_msr \n", "xen \n"}) {
    EXPECT_TRUE(check({true, clock, clock, fits})) << clock;
    EXPECT_FALSE(check({true, clock, clock, does_not_fit})) << clock;
    EXPECT_THAT(check({false, clock, clock, fits}).error().text, HasSubstr("no invariant TSC")) << clock;
  }
}

TEST(WallClock, AJumpOrAnotherRateIsSeen) {
  constexpr uint64_t kSecond = 1'000'000'000, kRate = 2'000'000'000;
  const ClockPair before{5 * kRate, 77 * kSecond};
  EXPECT_TRUE(agree(before, {6 * kRate, 78 * kSecond}, kRate));
  EXPECT_TRUE(agree(before, {6 * kRate, 78 * kSecond + 500'000}, kRate));  // the system's clock is adjusted
  EXPECT_FALSE(agree(before, {6 * kRate, 79 * kSecond}, kRate));           // the machine slept
  EXPECT_FALSE(agree(before, {kRate / 2, 78 * kSecond}, kRate));           // it is on another host
  EXPECT_FALSE(agree(before, {6 * kRate + kRate / 100, 78 * kSecond}, kRate));
}

TEST(WallClock, ItsRateIsThatOfTheSystemsClock) {
  ClockPair before = read_clocks();
  auto rate = ticks_per_second(before);
  if (!rate) {
    EXPECT_THAT(rate.error().text, HasSubstr("time stamp counter"));  // this machine's is not even
    return;
  }
  timespec nap{0, 50'000'000};
  nanosleep(&nap, nullptr);
  ClockPair after = read_clocks();
  double expected =
      static_cast<double>(after.ticks - before.ticks) / static_cast<double>(after.ns - before.ns);
  EXPECT_NEAR(static_cast<double>(*rate) / 1e9 / expected, 1, 1e-3);
}

}  // namespace
}  // namespace mdl::arch
