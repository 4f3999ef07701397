// Ground truth: each counted function adds to its own two numbers by hand, at its first
// statement and right before each way out. The numbers are atomics, so threads and signal
// handlers can share them, and the injector's cells are compared with them exactly.
//
// A function is COUNTED: it has its own symbol, is never inlined, cloned or merged, so
// that one call in the source is one call in the machine code.
#pragma once

#include <atomic>
#include <cstdint>

enum CountedIndex {
#define X(name, refusable) k_##name,
#include "counted_functions.def"
#undef X
  kCountedFunctions
};

struct Truth {
  std::atomic<uint64_t> entries;
  std::atomic<uint64_t> returns;
};

extern "C" Truth t_truth[kCountedFunctions];

#if defined(__clang__)
#define COUNTED extern "C" __attribute__((noinline, used))
#else
#define COUNTED extern "C" __attribute__((noinline, noclone, used))
#endif

#define ENTER(name) t_truth[k_##name].entries.fetch_add(1, std::memory_order_relaxed)
#define LEAVE(name) t_truth[k_##name].returns.fetch_add(1, std::memory_order_relaxed)

// For functions too small to count themselves: their only callers count for them.
#define CALL_COUNTED_HERE(name) (ENTER(name), LEAVE(name))

// One round of everything; the result depends on the seed only. `context` points to this
// thread's own state.
uint64_t run_round(uint64_t seed);

// How often a register, a flag or a stack slot was found changed by somebody else.
extern std::atomic<uint64_t> disturbed;

// In counted_asm.S.
extern "C" {
uint64_t t_tail_conditional(uint64_t x);
void t_ret1();
void t_rep_ret2();
uint64_t t_zero3();
uint64_t t_move4(uint64_t x);
void t_tight1();
uint64_t t_tight3();
uint64_t t_red_zone(uint64_t x);
uint64_t t_loop_entry(uint64_t turns, uint64_t sum);
uint64_t t_jump_into(uint64_t x);
uint64_t call_ret_imm(uint64_t x);       // pushes the argument that t_ret_imm pops
uint64_t call_static_chain(uint64_t x);  // passes x in r10 to t_static_chain
uint64_t call_keeps_registers();         // number of registers that changed across the call
uint64_t call_carry(uint64_t x);         // x + 1, the 1 passed and returned in the carry flag
}

// Functions of counted_functions.cpp that others need the address of.
COUNTED uint64_t t_ping(uint64_t n, uint64_t sum);
COUNTED uint64_t t_pong(uint64_t n, uint64_t sum);
COUNTED uint64_t t_tail_target(uint64_t x);
COUNTED uint64_t t_in_handler(uint64_t x);
COUNTED void t_handler(int);
COUNTED void t_handler_alternate(int);
