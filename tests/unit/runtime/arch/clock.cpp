// The machine's counter as a clock: when it is refused, and how fast it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "runtime/arch/arch.h"

namespace mdl::arch {
namespace {

using testing::HasSubstr;

TEST(WallClock, IsRefusedWhereItDoesNotCountEvenly) {
  EXPECT_TRUE(check_wall_clock(true, "tsc hpet acpi_pm \n"));
  EXPECT_TRUE(check_wall_clock(true, "kvm-clock tsc acpi_pm \n"));
  EXPECT_TRUE(check_wall_clock(true, ""));
  EXPECT_THAT(check_wall_clock(false, "tsc hpet").error().text, HasSubstr("no invariant TSC"));
  EXPECT_THAT(check_wall_clock(true, "hpet acpi_pm \n").error().text, HasSubstr("unstable"));
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
