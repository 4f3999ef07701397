// Ground truth of the `events` program: for each function how often its calls were made and came back, its
// loops were entered, left, begun and done with a round, and its blocks were entered. Functions in C++ count
// for themselves; the ones in assembly are counted by their callers, who know what they do.
#pragma once

#include <atomic>
#include <cstdint>

enum EventIndex {
#define X(name, known, refusable) k_##name,
#include "events.def"
#undef X
  kEventFunctions
};

struct Events {
  std::atomic<uint64_t> before, after, enter, exit, start, end, blocks;
};

extern Events events[kEventFunctions];

#define COUNT(name, what, number) events[k_##name].what.fetch_add(number, std::memory_order_relaxed)

#if defined(__clang__)
#define COUNTED extern "C" __attribute__((noinline, used))
#else
#define COUNTED extern "C" __attribute__((noinline, noclone, used))
#endif

uint64_t run_events(uint64_t seed);

// In events_asm.S.
extern "C" {
uint64_t a_diamond(uint64_t x);
uint64_t a_small_block(uint64_t x);
uint64_t a_do_while(uint64_t turns);
uint64_t a_nested(uint64_t outer, uint64_t inner);
uint64_t a_exits(uint64_t turns, uint64_t odd, uint64_t limit);
uint64_t a_continue(uint64_t turns);
uint64_t a_short(uint64_t turns);
uint64_t a_irreducible(uint64_t turns, uint64_t middle);
uint64_t a_entry_loop(uint64_t turns);
uint64_t a_red_zone(uint64_t turns);
uint64_t a_flags(uint64_t turns);
uint64_t a_straight(uint64_t x);
uint64_t a_padded(uint64_t x);
uint64_t a_calls(uint64_t x);
uint64_t e_leaf(uint64_t x);
}
COUNTED void e_handler(int);
COUNTED void e_handler_alternate(int);
