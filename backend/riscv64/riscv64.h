// The riscv64 target: the LP64D calling convention, rv64imac and Zicsr (what every Linux distribution needs).
#pragma once

#include "backend/target.h"

namespace mdl::backend::riscv64 {

extern const Target kTarget;

// By number, with the names of the calling convention. t0 is the link register of resident routines: the
// ABI's own alternate one, so that ra stays the target's. t2 may carry a static chain.
enum : Register {
  zero = 0,
  ra,
  sp,
  gp,
  tp,
  t0,
  t1,
  t2,
  s0,
  s1,
  a0,
  a1,
  a2,
  a3,
  a4,
  a5,
  a6,
  a7,
  s2,
  s3,
  s4,
  s5,
  s6,
  s7,
  s8,
  s9,
  s10,
  s11,
  t3,
  t4,
  t5,
  t6,
  kRegisters
};
inline constexpr Register kScratch = t5, kBlock = t6, kUpdated = t4;

// select.cpp
Needs needs(const Counted& snippet, size_t at);
std::vector<Line> select(const Counted& snippet, const Allocation& allocation);
std::vector<Line> guard();

}  // namespace mdl::backend::riscv64
