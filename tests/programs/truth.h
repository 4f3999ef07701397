// What a program's own clock says of calls, for those that know how long each of theirs took.
#pragma once

#include <algorithm>
#include <ctime>

namespace {

long now() {  // ns
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

// Calls that returned: bounds of the sum of their durations, by clocks inside and outside of them, and the longest one's
// upper bound.
struct Truth {
  unsigned long count = 0;
  long least = 0, most = 0, longest = 0;
  void add(long inside, long outside) {
    count++;
    least += inside;
    most += outside;
    longest = std::max(longest, outside);
  }
  void add(const Truth& other) {
    count += other.count;
    least += other.least;
    most += other.most;
    longest = std::max(longest, other.longest);
  }
};

}  // namespace
