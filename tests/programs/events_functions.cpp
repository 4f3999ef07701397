// The functions of the `events` program, and what each must count. Loops are written with their test at the end and
// calls are never inlined, so that what the source says is what the machine code does, whatever compiled it.
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>

#include "events.h"

Events events[kEventFunctions];

namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual uint64_t area(uint64_t x) const = 0;
};
struct Square : Shape {
  __attribute__((noinline)) uint64_t area(uint64_t x) const override { return x * x + 1; }
};
struct Strip : Shape {
  __attribute__((noinline)) uint64_t area(uint64_t x) const override { return x * 3 + 2; }
};

struct Pair {
  uint64_t a, b;
};

}  // namespace

#define NOINLINE extern "C" __attribute__((noinline, used))

NOINLINE uint64_t e_leaf(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 0x9e3779b97f4a7c15u + 1;
}
NOINLINE uint64_t e_other(uint64_t x) {
  asm volatile("" : "+r"(x));
  return (x ^ 0x5555) * 3;
}
NOINLINE uint64_t e_thrower(uint64_t x) {
  if (x & 1) throw x;
  return x + 7;
}
NOINLINE void e_jumper(jmp_buf& where, uint64_t x) {
  asm volatile("" : "+r"(x));
  if (x & 1) longjmp(where, 1);
}
NOINLINE uint64_t e_sum(int count, ...) {
  va_list list;
  va_start(list, count);
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += va_arg(list, double);
  va_end(list);
  return static_cast<uint64_t>(sum);
}
NOINLINE double e_half(double x) {
  asm volatile("" : "+x"(x));
  return x / 2;
}
NOINLINE Pair e_both(uint64_t x) {
  asm volatile("" : "+r"(x));
  return {x + 1, x * 5};
}

#define CALLED(name, number) (COUNT(name, before, number), COUNT(name, after, number))

COUNTED uint64_t e_direct(uint64_t x) {
  CALLED(e_direct, 3);
  uint64_t a = e_leaf(x), b = e_other(a), c = e_leaf(b);
  return a ^ b ^ c;
}

COUNTED uint64_t e_loop_call(uint64_t turns) {
  CALLED(e_loop_call, turns);
  COUNT(e_loop_call, enter, 1), COUNT(e_loop_call, exit, 1);
  COUNT(e_loop_call, start, turns), COUNT(e_loop_call, end, turns - 1);
  uint64_t sum = 1;
  do {
    sum = e_leaf(sum);
  } while (--turns);
  return sum ^ 3;
}

COUNTED uint64_t e_if_call(uint64_t x) {
  uint64_t sum = x * 3;
  if (x & 2) {
    CALLED(e_if_call, 1);
    sum = e_leaf(sum);
  }
  return sum + 1;
}

COUNTED uint64_t e_two_ifs(uint64_t x) {
  uint64_t sum = x * 3;
  CALLED(e_two_ifs, (x & 1) + (x >> 1 & 1));
  if (x & 1) sum = e_leaf(sum);
  if (x & 2) sum = e_other(sum);
  return sum + 1;
}

COUNTED uint64_t e_while_call(uint64_t turns) {
  CALLED(e_while_call, turns);
  uint64_t sum = turns;
  while (turns-- > 0) sum = e_leaf(sum);
  return sum ^ 5;
}

COUNTED uint64_t e_tree(uint64_t n) {
  uint64_t sum = n * 7 + 1;
  if (n > 2) {
    COUNT(e_tree, before, 1);
    sum += e_tree(n - 2);
    COUNT(e_tree, after, 1);
  }
  if (n % 3 != 0 && n > 1) {
    COUNT(e_tree, before, 1);
    sum ^= e_tree(n - 1);
    COUNT(e_tree, after, 1);
  }
  return sum + 3;
}

COUNTED uint64_t e_deep(uint64_t n) {
  uint64_t sum = n;
  if (n > 0) {
    COUNT(e_deep, before, 1);
    sum = e_deep(n - 1) * 3;
    COUNT(e_deep, after, 1);
  }
  return sum + 1;
}

// The handler calls __cxa_begin_catch and __cxa_end_catch.
COUNTED uint64_t e_catch(uint64_t x) {
  uint64_t odd = x & 1, result;
  COUNT(e_catch, before, 1 + 2 * odd), COUNT(e_catch, after, 1 - odd + 2 * odd);
  try {
    result = e_thrower(x) + 1;
  } catch (uint64_t value) {
    result = value * 2;
  }
  asm volatile("" : "+r"(result));
  return result ^ 9;
}

COUNTED uint64_t e_catch_if(uint64_t x) {
  uint64_t odd = x & 1, called = x >> 1 & 1, result = x * 5;
  COUNT(e_catch_if, before, called * (1 + 2 * odd)), COUNT(e_catch_if, after, called * (1 + odd));
  try {
    if (called) result = e_thrower(x) + 1;
  } catch (uint64_t value) {
    result = value * 2;
  }
  asm volatile("" : "+r"(result));
  return result ^ 9;
}

COUNTED uint64_t e_catch_loop(uint64_t turns) {
  uint64_t sum = 0, odd = (turns + 1) / 2, even = turns / 2;
  COUNT(e_catch_loop, before, turns + 2 * odd), COUNT(e_catch_loop, after, even + 2 * odd);
  do {
    try {
      sum += e_thrower(turns);
    } catch (uint64_t value) {
      sum ^= value << 3;
    }
  } while (--turns);
  return sum;
}

// setjmp comes back once more for an odd x; e_jumper then does not.
COUNTED uint64_t e_jump_base(uint64_t x) {
  jmp_buf where;
  uint64_t odd = x & 1;
  COUNT(e_jump_base, before, 2), COUNT(e_jump_base, after, 1 + odd + (1 - odd));
  volatile uint64_t kept = x;
  if (setjmp(where) == 0) e_jumper(where, x);
  return kept + 1;
}

COUNTED uint64_t e_indirect(uint64_t (*function)(uint64_t), uint64_t x) {
  CALLED(e_indirect, 2);
  uint64_t first = function(x);
  return function(first + 1) + first;
}

COUNTED uint64_t e_virtual(const Shape* shape, uint64_t x) {
  CALLED(e_virtual, 2);
  uint64_t first = shape->area(x);
  return shape->area(first + 1) + first;
}

COUNTED uint64_t e_library(uint64_t x) {
  CALLED(e_library, 2);
  unsigned seed = static_cast<unsigned>(x);
  auto first = static_cast<uint64_t>(rand_r(&seed));
  return static_cast<uint64_t>(rand_r(&seed)) ^ first;
}

COUNTED uint64_t e_tail(uint64_t x) {
  return e_leaf(x + 1);
}

COUNTED uint64_t e_switch(uint64_t turns) {
  CALLED(e_switch, turns);
  uint64_t sum = turns;
  do {
    switch (turns % 7) {
      case 0:
        sum = e_leaf(sum);
        break;
      case 1:
        sum = e_other(sum) + 1;
        break;
      case 2:
        sum ^= e_leaf(turns);
        break;
      case 3:
        sum += e_other(turns) * 3;
        break;
      case 4:
        sum = e_leaf(sum + 4) ^ turns;
        break;
      case 5:
        sum -= e_leaf(sum ^ 5);
        break;
      default:
        sum = e_other(sum - 6);
        break;
    }
  } while (--turns);
  return sum;
}

COUNTED uint64_t e_nested(uint64_t outer, uint64_t inner) {
  CALLED(e_nested, outer * (1 + inner));
  COUNT(e_nested, enter, 1 + outer), COUNT(e_nested, exit, 1 + outer);
  COUNT(e_nested, start, outer + outer * inner), COUNT(e_nested, end, outer - 1 + outer * (inner - 1));
  uint64_t sum = 0;
  do {
    sum += e_other(sum);
    uint64_t left = inner;
    do {
      sum = e_leaf(sum) + left;
    } while (--left);
    asm volatile("" : "+r"(sum));
  } while (--outer);
  return sum;
}

COUNTED uint64_t e_break(uint64_t turns, uint64_t stop) {
  uint64_t sum = 1;
  do {
    sum = e_leaf(sum);
    if (turns == stop) break;
    if (turns % 3 == 0) continue;
    sum = e_other(sum);
  } while (--turns);
  return sum ^ 11;
}

COUNTED uint64_t e_variadic(uint64_t x) {
  CALLED(e_variadic, 2);
  auto value = static_cast<double>(x & 0xff);
  uint64_t first = e_sum(3, value, 1.5, value * 2);
  return first + e_sum(1, value + 0.25);
}

COUNTED uint64_t e_floats(uint64_t x) {
  CALLED(e_floats, 2);
  double value = static_cast<double>(x & 0xffff) + 0.5;
  double first = e_half(value);
  return static_cast<uint64_t>(e_half(first + value) * 1024);
}

COUNTED uint64_t e_pair(uint64_t x) {
  CALLED(e_pair, 1);
  Pair both = e_both(x);
  return both.a ^ both.b;
}

COUNTED void e_handler(int number) {
  volatile uint64_t sum = static_cast<uint64_t>(number);
  CALLED(e_handler, 1);
  sum = e_leaf(sum);
  if (sum & 1) {
    CALLED(e_handler, 1);
    sum = e_other(sum);
  }
  sum = sum + 1;
}

COUNTED void e_handler_alternate(int number) {
  volatile uint64_t sum = static_cast<uint64_t>(number) * 3;
  if (sum & 1) {
    CALLED(e_handler_alternate, 1);
    sum = e_other(sum);
  }
  if (sum & 2) {
    CALLED(e_handler_alternate, 1);
    sum = e_if_call(sum);
  }
  sum = sum + 1;
}

namespace {

#define LOOP(name, entered, left, started, ended)                                                        \
  (COUNT(name, enter, entered), COUNT(name, exit, left), COUNT(name, start, started), COUNT(name, end, ended))

// Counted here, not to have a second loop in there.
uint64_t call_break(uint64_t turns, uint64_t stop) {
  uint64_t rounds = 0, others = 0;
  for (uint64_t left = turns; left > 0; --left) {
    rounds++;
    if (left == stop) break;
    if (left % 3 != 0) others++;
  }
  CALLED(e_break, rounds + others);
  LOOP(e_break, 1, 1, rounds, rounds - 1);
  return e_break(turns, stop);
}

uint64_t call_exits(uint64_t turns, uint64_t at, uint64_t limit) {
  uint64_t sum = 0, round = 0, left = turns, rounds = 0, blocks = 1;
  while (true) {
    sum += round * 2 + 3;
    rounds++, blocks++;
    if (round == at) break;
    round++, blocks++;
    if (sum >= limit) break;
    blocks++;
    if (--left == 0) break;
  }
  LOOP(a_exits, 1, 1, rounds, rounds - 1);
  COUNT(a_exits, blocks, blocks + 1);
  return a_exits(turns, at, limit);
}

uint64_t run_assembly(uint64_t seed) {
  uint64_t n = seed % 9 + 1, m = seed % 4 + 1, sum = 0;
  COUNT(a_diamond, blocks, 3);
  sum += a_diamond(seed);
  COUNT(a_small_block, blocks, 2 + (seed & 1));
  sum ^= a_small_block(seed);
  LOOP(a_do_while, 1, 1, n, n - 1);
  COUNT(a_do_while, blocks, n + 2);
  sum += a_do_while(n);
  LOOP(a_nested, 1 + n, 1 + n, n + n * m, n - 1 + n * (m - 1));
  COUNT(a_nested, blocks, 2 + 2 * n + n * m);
  sum ^= a_nested(n, m);
  sum += call_exits(n, 100, 1000);
  sum ^= call_exits(n, m, 1000);
  sum += call_exits(n + 20, 100, 5 * m);
  LOOP(a_continue, 1, 1, n + 1, n);
  COUNT(a_continue, blocks, 2 + n + 1 + n + (n + 1) / 2);
  sum ^= a_continue(n);
  LOOP(a_short, 1, 1, n, n - 1);
  sum += a_short(n);
  COUNT(a_irreducible, blocks, 2 + n + (seed & 1 ? n - 1 : n));
  sum ^= a_irreducible(n, seed & 1);
  LOOP(a_entry_loop, 1, 1, n, n - 1);
  COUNT(a_entry_loop, blocks, n + 1);
  sum += a_entry_loop(n);
  LOOP(a_red_zone, 1, 1, n, n - 1);
  COUNT(a_red_zone, blocks, n + 2);
  sum ^= a_red_zone(n);
  LOOP(a_flags, 1, 1, n, n - 1);
  COUNT(a_flags, blocks, n + 2);
  sum += a_flags(n);
  COUNT(a_straight, blocks, 1);
  sum += a_straight(seed);
  CALLED(a_padded, 1);
  COUNT(a_padded, blocks, 1);
  sum ^= a_padded(seed);
  CALLED(a_calls, seed & 1 ? 2 : 0);
  COUNT(a_calls, blocks, 2 + (seed & 1));
  return sum ^ a_calls(seed);
}

}  // namespace

uint64_t run_events(uint64_t seed) {
  static const Square square;
  static const Strip strip;
  const Shape* shape = seed & 1 ? static_cast<const Shape*>(&square) : &strip;
  uint64_t n = seed % 9 + 1, sum = e_direct(seed);
  sum = sum * 31 + e_loop_call(n);
  for (uint64_t x = 0; x < 4; ++x) sum = sum * 31 + e_if_call(seed + x);
  for (uint64_t x = 0; x < 4; ++x) sum = sum * 31 + e_two_ifs(seed + x);
  sum = sum * 31 + e_while_call(n - 1);
  sum = sum * 31 + e_tree(n + 4);
  if (seed == 3) sum = sum * 31 + e_deep(1000);
  for (uint64_t x = 0; x < 2; ++x) sum = sum * 31 + e_catch(seed + x);
  for (uint64_t x = 0; x < 4; ++x) sum = sum * 31 + e_catch_if(seed + x);
  sum = sum * 31 + e_catch_loop(n);
  for (uint64_t x = 0; x < 3; ++x) sum = sum * 31 + e_jump_base(seed + x);
  sum = sum * 31 + e_indirect(seed & 1 ? e_leaf : e_other, seed);
  sum = sum * 31 + e_virtual(shape, seed);
  sum = sum * 31 + e_library(seed);
  sum = sum * 31 + e_tail(seed);
  sum = sum * 31 + e_switch(n + 6);
  sum = sum * 31 + e_nested(n, seed % 3 + 1);
  sum = sum * 31 + call_break(n + 3, seed % 5);
  sum = sum * 31 + e_variadic(seed);
  sum = sum * 31 + e_floats(seed);
  sum = sum * 31 + e_pair(seed);
  return sum * 31 + run_assembly(seed);
}
