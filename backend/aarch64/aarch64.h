// The aarch64 target: AAPCS64, armv8.1-a (a counter is added to by one instruction, which needs LSE).
#pragma once

#include "backend/target.h"

namespace mdl::backend::aarch64 {

extern const Target kTarget;

// x0 to x30, by number. x16 and x17 are those that linkers use between functions (AAPCS64, 6.1.1): free
// wherever a call or return can be. x18 is the platform's, x29 the frame pointer.
enum : Register {
  x0 = 0,
  x8 = 8,
  kScratch = 16,
  kBlock = 17,
  kUpdated = 15,
  kLink = 30,
  kZero = 31,
  kRegisters = 31
};

// select.cpp
Needs needs(const Counted& snippet, size_t at);
std::vector<Line> select(const Counted& snippet, const Allocation& allocation);
std::vector<Line> guard();

}  // namespace mdl::backend::aarch64
