// A short sleep, between two looks at something.
#pragma once

#include <ctime>

namespace mdl {

// Less than a second. A signal ends it early.
inline void nap(long microseconds) {
  const timespec time{0, microseconds * 1000};
  nanosleep(&time, nullptr);
}

}  // namespace mdl
