// The counted functions that a compiler makes, and the round that calls them all.
//
// Where a function ends in a tail call, LEAVE stands before the call: for the injector a
// jump out of the function is a return. If a compiler makes an ordinary call of it, the
// count is the same. No function calls itself in that position: compilers make a loop of it,
// and then there are fewer calls than the source says.
#include <csetjmp>
#include <cstdarg>
#include <stdexcept>

#include "counted.h"

Truth t_truth[kCountedFunctions];
std::atomic<uint64_t> disturbed;

namespace {

thread_local jmp_buf jump_target;

uint64_t mix(uint64_t h, uint64_t value) {
  h ^= value + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h;
}

void expect(bool ok) {
  if (!ok) disturbed.fetch_add(1, std::memory_order_relaxed);
}

struct Thrown {
  uint64_t value;
};

}  // namespace

COUNTED uint64_t t_fib(uint64_t n) {
  ENTER(t_fib);
  uint64_t result = n < 2 ? n : t_fib(n - 1) + t_fib(n - 2);
  LEAVE(t_fib);
  return result;
}

COUNTED uint64_t t_ping(uint64_t n, uint64_t sum) {
  ENTER(t_ping);
  if (n == 0) {
    LEAVE(t_ping);
    return sum;
  }
  LEAVE(t_ping);
  return t_pong(n - 1, sum * 3);
}

COUNTED uint64_t t_pong(uint64_t n, uint64_t sum) {
  ENTER(t_pong);
  if (n == 0) {
    LEAVE(t_pong);
    return sum + 1;
  }
  LEAVE(t_pong);
  return t_ping(n - 1, sum + n);
}

COUNTED uint64_t t_throw_deep(uint64_t depth) {
  ENTER(t_throw_deep);
  if (depth == 0) throw Thrown{42};
  uint64_t below = t_throw_deep(depth - 1);
  LEAVE(t_throw_deep);
  return below + 1;
}

COUNTED uint64_t t_cleanup_frame(uint64_t depth, uint64_t* cleaned) {
  ENTER(t_cleanup_frame);
  struct Cleanup {
    uint64_t* cleaned;
    ~Cleanup() { ++*cleaned; }
  } cleanup{cleaned};
  uint64_t below = depth == 0 ? 1 : t_throw_deep(depth);
  LEAVE(t_cleanup_frame);
  return below;
}

COUNTED uint64_t t_rethrow(uint64_t depth, uint64_t* cleaned) {
  ENTER(t_rethrow);
  uint64_t result = 0;
  try {
    result = t_cleanup_frame(depth, cleaned);
  } catch (Thrown& thrown) {
    thrown.value += depth;
    throw;
  }
  LEAVE(t_rethrow);
  return result;
}

COUNTED uint64_t t_catch(uint64_t depth) {
  ENTER(t_catch);
  uint64_t cleaned = 0;
  uint64_t result = 0;
  try {
    result = t_rethrow(depth, &cleaned);
  } catch (const Thrown& thrown) {
    result = thrown.value * 3;
  }
  LEAVE(t_catch);
  return result + cleaned;
}

COUNTED uint64_t t_tail_target(uint64_t x) {
  ENTER(t_tail_target);
  uint64_t result = x * 5 + 1;
  LEAVE(t_tail_target);
  return result;
}

COUNTED uint64_t t_tail_direct(uint64_t x) {
  ENTER(t_tail_direct);
  LEAVE(t_tail_direct);
  return t_tail_target(x + 2);
}

COUNTED uint64_t t_tail_indirect(uint64_t (*next)(uint64_t), uint64_t x) {
  ENTER(t_tail_indirect);
  LEAVE(t_tail_indirect);
  return next(x + 3);
}

COUNTED uint64_t t_switch(uint64_t kind, uint64_t x) {
  ENTER(t_switch);
  switch (kind) {
    case 0:
      LEAVE(t_switch);
      return x + 11;
    case 1:
      LEAVE(t_switch);
      return x * 13;
    case 2:
      x ^= 0x55;
      [[fallthrough]];
    case 3:
      x += 17;
      [[fallthrough]];
    case 4:
      x <<= 1;
      break;
    case 5:
      LEAVE(t_switch);
      return x - 19;
    case 6:
      x = x * x;
      break;
    case 7:
      LEAVE(t_switch);
      return t_tail_target(x);
    case 8:
      x = ~x;
      break;
    case 9:
      x |= 0x100;
      [[fallthrough]];
    case 10:
      x >>= 2;
      break;
    default:
      x = 3;
      break;
  }
  LEAVE(t_switch);
  return x;
}

COUNTED uint64_t t_switch_loop(const unsigned char* program, uint64_t length) {
  ENTER(t_switch_loop);
  uint64_t a = 1;
  for (uint64_t i = 0; i < length; ++i) {
    switch (program[i]) {
      case 0:
        a += 3;
        break;
      case 1:
        a *= 7;
        break;
      case 2:
        a ^= i;
        break;
      case 3:
        a -= 1;
        [[fallthrough]];
      case 4:
        a = (a << 3) | (a >> 61);
        break;
      case 5:
        a = ~a;
        break;
      case 6:
        a += a >> 5;
        break;
      case 7:
        LEAVE(t_switch_loop);
        return a;
      default:
        a = 0;
        break;
    }
  }
  LEAVE(t_switch_loop);
  return a + 1;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
COUNTED uint64_t t_computed_goto(const unsigned char* program) {
  static const void* const labels[] = {&&add, &&multiply, &&shift, &&stop};
  ENTER(t_computed_goto);
  uint64_t a = 2;
  goto* labels[*program++ & 3];
add:
  a += 9;
  goto* labels[*program++ & 3];
multiply:
  a *= 3;
  goto* labels[*program++ & 3];
shift:
  a <<= 2;
  goto* labels[*program++ & 3];
stop:
  LEAVE(t_computed_goto);
  return a;
}
#pragma GCC diagnostic pop

COUNTED uint64_t t_red_zone_c(uint64_t x) {
  ENTER(t_red_zone_c);
  volatile uint64_t slots[12];
  for (int i = 0; i < 12; ++i) slots[i] = x + static_cast<uint64_t>(i);
  uint64_t sum = 0;
  for (int i = 0; i < 12; ++i) sum += slots[i] * static_cast<uint64_t>(i + 1);
  LEAVE(t_red_zone_c);
  return sum;
}

COUNTED void t_jump_deep(uint64_t depth) {
  ENTER(t_jump_deep);
  if (depth == 0) longjmp(jump_target, 7);
  if (depth < 100) t_jump_deep(depth - 1);
  LEAVE(t_jump_deep);
}

COUNTED uint64_t t_jump_base(uint64_t depth) {
  ENTER(t_jump_base);
  volatile uint64_t kept = depth * 3;
  int code = setjmp(jump_target);
  if (code == 0) t_jump_deep(depth);
  LEAVE(t_jump_base);
  return kept + static_cast<uint64_t>(code);
}

#define INDIRECT(name, expression)    \
  COUNTED uint64_t name(uint64_t x) { \
    ENTER(name);                      \
    uint64_t result = expression;     \
    LEAVE(name);                      \
    return result;                    \
  }
INDIRECT(t_indirect_0, x + 100)
INDIRECT(t_indirect_1, x * 101)
INDIRECT(t_indirect_2, x ^ 102)

COUNTED uint64_t t_indirect_caller(uint64_t x) {
  static uint64_t (*const volatile table[])(uint64_t) = {t_indirect_0, t_indirect_1, t_indirect_2};
  ENTER(t_indirect_caller);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 5; ++i) sum += table[(x + i) % 3](i);
  LEAVE(t_indirect_caller);
  return sum;
}

COUNTED uint64_t t_in_handler(uint64_t x) {
  ENTER(t_in_handler);
  uint64_t result = x + 31;
  LEAVE(t_in_handler);
  return result;
}

COUNTED void t_handler(int) {
  ENTER(t_handler);
  for (uint64_t i = 0; i < 3; ++i) t_in_handler(i);
  LEAVE(t_handler);
}

COUNTED void t_handler_alternate(int) {
  ENTER(t_handler_alternate);
  t_in_handler(t_fib(3));
  LEAVE(t_handler_alternate);
}

COUNTED uint64_t t_variadic(const char* kinds, ...) {
  ENTER(t_variadic);
  va_list arguments;
  va_start(arguments, kinds);
  double doubles = 0;
  uint64_t integers = 0;
  for (; *kinds; ++kinds) {
    if (*kinds == 'd') doubles += va_arg(arguments, double);
    if (*kinds == 'i') integers += va_arg(arguments, uint64_t);
  }
  va_end(arguments);
  LEAVE(t_variadic);
  return integers * 1000 + static_cast<uint64_t>(doubles);
}

// Small enough that GCC sees which caller-saved registers it leaves alone (-fipa-ra), so
// that t_ipa_caller may keep values in the others across the calls.
extern "C" __attribute__((noinline)) uint64_t t_ipa(uint64_t x) {
  ENTER(t_ipa);
  asm volatile("" : "+r"(x));
  LEAVE(t_ipa);
  return x + 1;
}

COUNTED uint64_t t_ipa_caller(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  ENTER(t_ipa_caller);
  uint64_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += t_ipa(a) * b + c;
    a += d;
    b ^= sum;
    c += b;
    d += 2;
  }
  LEAVE(t_ipa_caller);
  return sum + a + b + c + d;
}

[[gnu::cold, gnu::noinline]] static uint64_t rare(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x * 77;
}

COUNTED uint64_t t_cold(uint64_t x) {
  ENTER(t_cold);
  if (__builtin_expect(x % 16 == 5, 0)) {
    uint64_t result = rare(x);
    result += rare(result);
    LEAVE(t_cold);
    return result;
  }
  LEAVE(t_cold);
  return x + 1;
}

COUNTED uint64_t t_aliased(uint64_t x) {
  ENTER(t_aliased);
  uint64_t result = x * 2 + 9;
  LEAVE(t_aliased);
  return result;
}
extern "C" uint64_t t_aliased_second(uint64_t x);
asm(".globl t_aliased_second\n.type t_aliased_second, @function\n.set t_aliased_second, t_aliased");

COUNTED uint64_t t_many_returns(uint64_t x) {
  ENTER(t_many_returns);
  if (x % 2 == 0) {
    LEAVE(t_many_returns);
    return x;
  }
  if (x % 3 == 0) {
    LEAVE(t_many_returns);
    return t_tail_target(x);
  }
  uint64_t y = t_tail_target(x) + 1;
  if (y % 5 == 0) {
    LEAVE(t_many_returns);
    return y / 5;
  }
  LEAVE(t_many_returns);
  return y;
}

COUNTED double t_floats(double a, float b, double c) {
  ENTER(t_floats);
  double result = a * 2 + b + c / 4;
  LEAVE(t_floats);
  return result;
}

struct BigStruct {
  uint64_t words[6];
};

COUNTED void t_big_struct(BigStruct* into, uint64_t x);
COUNTED void t_big_struct(BigStruct* into, uint64_t x) {
  ENTER(t_big_struct);
  for (uint64_t i = 0; i < 6; ++i) into->words[i] = x + i * i;
  LEAVE(t_big_struct);
}

namespace {

uint64_t tiny_functions(uint64_t h, uint64_t seed) {
  CALL_COUNTED_HERE(t_ret1);
  t_ret1();
  CALL_COUNTED_HERE(t_rep_ret2);
  t_rep_ret2();
  CALL_COUNTED_HERE(t_zero3);
  h = mix(h, t_zero3());
  CALL_COUNTED_HERE(t_move4);
  h = mix(h, t_move4(seed + 5));
  CALL_COUNTED_HERE(t_tight1);
  t_tight1();
  CALL_COUNTED_HERE(t_tight3);
  h = mix(h, t_tight3());
  CALL_COUNTED_HERE(t_loop_entry);
  return mix(h, t_loop_entry(seed % 7 + 1, seed));
}

uint64_t assembly_functions(uint64_t h, uint64_t seed) {
  h = mix(h, t_tail_conditional(seed));
  h = mix(h, t_tail_conditional(seed + 1));
  h = mix(h, t_red_zone(seed));
  h = mix(h, t_jump_into(seed % 9 + 1));
  h = mix(h, call_ret_imm(seed));
  h = mix(h, call_static_chain(seed));
  expect(call_keeps_registers() == 0);
  expect(call_carry(seed) == seed + 1);
  return h;
}

uint64_t compiled_functions(uint64_t h, uint64_t seed) {
  static const unsigned char program[] = {0, 1, 2, 3, 4, 5, 6, 2, 1, 0, 3, 7};
  static const unsigned char jumps[] = {0, 1, 2, 0, 2, 1, 3};
  uint64_t (*volatile next)(uint64_t) = t_tail_target;
  h = mix(h, t_ping(seed + 4, seed));
  h = mix(h, t_tail_direct(seed));
  h = mix(h, t_tail_indirect(next, seed));
  for (uint64_t kind = 0; kind < 12; ++kind) h = mix(h, t_switch(kind, seed));
  h = mix(h, t_switch_loop(program, 4 + seed % 9));
  h = mix(h, t_computed_goto(jumps + seed % 3));
  h = mix(h, t_red_zone_c(seed));
  h = mix(h, t_indirect_caller(seed));
  h = mix(h, t_in_handler(seed));
  h = mix(h, t_variadic("idiid", seed, 2.5, uint64_t{3}, uint64_t{4}, 8.0));
  h = mix(h, t_variadic("iii", seed, uint64_t{1}, uint64_t{2}));
  h = mix(h, t_ipa_caller(seed, 3, 5, 7));
  h = mix(h, t_cold(seed));
  h = mix(h, t_aliased(seed));
  h = mix(h, t_aliased_second(seed + 1));
  for (uint64_t x = seed; x < seed + 6; ++x) h = mix(h, t_many_returns(x));
  h = mix(h, static_cast<uint64_t>(t_floats(static_cast<double>(seed), 1.5f, 4)));
  BigStruct big;
  t_big_struct(&big, seed);
  for (uint64_t word : big.words) h = mix(h, word);
  return h;
}

}  // namespace

uint64_t run_round(uint64_t seed) {
  uint64_t h = seed;
  h = mix(h, t_fib(8 + seed % 4));
  h = mix(h, t_catch(seed % 5));
  h = mix(h, t_jump_base(1 + seed % 6));
  h = tiny_functions(h, seed);
  h = assembly_functions(h, seed);
  return compiled_functions(h, seed);
}
