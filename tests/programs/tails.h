// What both objects of the program `tails` have.
#pragma once

#include <cstdint>

#define COUNTED extern "C" __attribute__((noinline, used, visibility("default")))

COUNTED void t_event();                  // what is counted
COUNTED uint64_t t_work(uint64_t x);     // some events, and a sleep
COUNTED uint64_t more_work(uint64_t x);  // of the library: likewise
COUNTED uint64_t
more_chain(uint64_t x);  // ends in a jump to more_last, which ends in one to the program's t_work
COUNTED uint64_t more_last(uint64_t x);
