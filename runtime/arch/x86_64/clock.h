// The time stamp counter: what must hold for it to be a clock.
#pragma once

#include <string_view>

#include "runtime/arch/clock.h"

namespace mdl::arch {

// The known facts of this machine's counter.
struct CounterFacts {
  bool invariant = false;  // as the processor says
  std::string_view available =
      {};  // of /sys/devices/system/clocksource/clocksource0; "" when it cannot be read
  std::string_view current = {};  // likewise
  // Whether it agrees with the system's clock on all processors that we may use.
  Result<void> (*compared)(const ClockPair& since) = nullptr;
};
// The decision alone.
Result<void> check_wall_clock(const CounterFacts& facts, const ClockPair& since);

}  // namespace mdl::arch
