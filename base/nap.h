// A short sleep, between two looks at something.
#pragma once

#include <sys/prctl.h>

#include <ctime>

namespace mdl {

// Less than a second. A signal ends it early. The kernel may wake a thread 50 us too late, to wake several at once:
// too late for a short sleep, for which somebody may wait.
inline void nap(long microseconds) {
  constexpr long kShort = 100, kSlack = 1000;  // us, ns
  const timespec time{0, microseconds * 1000};
  if (microseconds < kShort) prctl(PR_SET_TIMERSLACK, kSlack, 0, 0, 0);
  nanosleep(&time, nullptr);
  if (microseconds < kShort) prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0);  // what it was
}

}  // namespace mdl
