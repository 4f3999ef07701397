// What code of a metric can reach in a program: variables, memory by address, functions.
//
//   outside [SECONDS]
//
// Commands: `go N` calls t_point N times with changing variables; `read N` calls t_address N times with each
// of a list of addresses, of which some are not mapped; `call N` calls t_call N times from assembly that
// compares registers around the call; `through N` calls t_through N times, which calls t_call; `rounds N`
// calls t_rounds, whose loop runs N times; `slow N` calls
// t_call once while t_callee sleeps N ms; `leave N` has t_callee end by longjmp N times. Answers carry NAME:
// what a counter that adds up the variable at each t_point must have; "read": the same for the words at the
// addresses; "callee": calls of t_callee; "result": the sum of its results; "changed": registers that were
// not as before.
#include <sys/mman.h>
#include <unistd.h>

#include <csetjmp>
#include <cstdint>
#include <cstring>

#include "protocol.h"

#define KEEP extern "C" __attribute__((noinline, used))

extern "C" {
volatile int8_t v_i8 = 0;
volatile int16_t v_i16 = 0;
volatile int32_t v_i32 = 0;
volatile int64_t v_i64 = 0;
volatile char v_pad[3] = {};
thread_local int v_thread = 1;
struct {
  volatile char byte;
  volatile int32_t word;
} __attribute__((packed)) v_struct = {0, 0};
}
static volatile int32_t v_same asm("v_same") __attribute__((used)) = 1;  // outside_more.cpp has one, too
namespace first {
__attribute__((used)) static volatile int v_twice = 1;
}
namespace space {
volatile int32_t v_inner = 7;
}

namespace {

int64_t sums[4], inner_sum, read_sum;
uint64_t points;
volatile uint64_t callee_calls, callee_results;
uint64_t changed;
// Written and read where the compiler sees no call in between.
volatile unsigned long sleeps_ms = 0;
volatile bool leaves = false;
jmp_buf target;

}  // namespace

KEEP uint64_t t_point(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

KEEP uint64_t t_address(const void* address) {
  asm volatile("" : "+r"(address));
  return reinterpret_cast<uint64_t>(address);
}

KEEP uint64_t t_call(uint64_t a, uint64_t b) {
  asm volatile("" : "+r"(a), "+r"(b));
  return a ^ b;
}

// Its loop keeps values in registers over each round.
KEEP uint64_t t_rounds(uint64_t count) {
  uint64_t sum = 0, factor = 3;
  for (uint64_t i = 0; i < count; ++i) {
    asm volatile("lea 1(%0, %1, 2), %0\n lea 5(%0), %0\n xor $3, %0" : "+r"(sum) : "r"(factor) : "cc");
    sum += i * factor;
  }
  return sum;
}

KEEP uint64_t t_through(uint64_t a) {
  uint64_t result = t_call(a, 2);
  asm volatile("" : "+r"(result));
  return result + 1;
}

// Destroys whatever the calling convention lets it, and needs an aligned stack.
KEEP uint64_t t_callee(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  callee_calls = callee_calls + 1;
  alignas(16) volatile double space[2] = {static_cast<double>(a), 1.5};
  asm volatile("movaps %0, %%xmm0" ::"m"(space) : "xmm0");
  asm volatile("pxor %%xmm1, %%xmm1\n pxor %%xmm7, %%xmm7\n pxor %%xmm15, %%xmm15\n fldpi\n fstp %%st(0)" ::
                   : "xmm1", "xmm7", "xmm15");
  asm volatile(
      "mov $-1, %%rcx\n mov $-1, %%rsi\n mov $-1, %%r8\n mov $-1, %%r9\n mov $-1, %%r10\n mov $-1, %%r11"
      :
      :
      : "rcx", "rsi", "r8", "r9", "r10", "r11", "cc");
  uint64_t result = a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f;
  callee_results = callee_results + result;
  if (sleeps_ms) usleep(static_cast<useconds_t>(sleeps_ms * 1000));
  if (leaves) longjmp(target, 1);
  return result;
}

// The registers that a function may change, and the x87, vector and control state: all as they were?
static uint64_t checked_call(uint64_t a, uint64_t b) {
  uint64_t before[10], after[10];
  double x = 2.5, left = 0;
  uint32_t control = 0x9fc0, control_after = 0;  // MXCSR: flush to zero, all masked
  uint32_t old_control;
  asm volatile("stmxcsr %0" : "=m"(old_control));
  for (uint64_t i = 0; i < 10; i++) before[i] = 0x0123456789abcdefu * (i + 1);
  uint64_t result;
  asm volatile(
      "ldmxcsr %[control]\n"
      "fldl %[x]\n"
      "movq (%[before]), %%xmm0\n movq 8(%[before]), %%xmm1\n movq 16(%[before]), %%xmm7\n"
      "movq 24(%[before]), %%xmm15\n"
      "mov 32(%[before]), %%rcx\n mov 40(%[before]), %%rdx\n mov 48(%[before]), %%r8\n mov 56(%[before]), "
      "%%r9\n"
      "call t_call\n"
      "movq %%xmm0, (%[after])\n movq %%xmm1, 8(%[after])\n movq %%xmm7, 16(%[after])\n"
      "movq %%xmm15, 24(%[after])\n"
      "mov %%rcx, 32(%[after])\n mov %%rdx, 40(%[after])\n mov %%r8, 48(%[after])\n mov %%r9, 56(%[after])\n"
      "fstpl %[left]\n"
      "stmxcsr %[control_after]\n"
      : "=a"(result), [left] "=m"(left), [control_after] "=m"(control_after), "+D"(a), "+S"(b), "=m"(after)
      : [before] "b"(before), [after] "r"(after), [x] "m"(x), [control] "m"(control), "m"(before)
      : "rcx", "rdx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm7", "xmm15", "memory", "cc");
  asm volatile("ldmxcsr %0" : : "m"(old_control));
  for (int i = 0; i < 8; i++) changed += before[i] != after[i];
  changed += x != left;
  changed += (control & ~0x3fu) != (control_after & ~0x3fu);
  return result;
}

namespace {

void go(unsigned long count) {
  for (unsigned long i = 0; i < count; ++i) {
    ++points;
    v_i8 = static_cast<int8_t>(points * 37);
    v_i16 = static_cast<int16_t>(points * 7919);
    v_i32 = static_cast<int32_t>(points * 2654435761u);
    v_i64 = static_cast<int64_t>(points * 0x9e3779b97f4a7c15u);
    space::v_inner = -static_cast<int32_t>(points);
    sums[0] += v_i8, sums[1] += v_i16, sums[2] += v_i32;
    sums[3] = static_cast<int64_t>(static_cast<uint64_t>(sums[3]) + static_cast<uint64_t>(v_i64));
    inner_sum += space::v_inner;
    t_point(points);
  }
}

void read_addresses(unsigned long count) {
  constexpr size_t kPage = 4096;
  auto* pages = static_cast<char*>(
      mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  int64_t word = 1234567890123;
  std::memcpy(pages, &word, 8), std::memcpy(pages + kPage - 8, &word, 8);
  std::memcpy(pages + kPage + 13, &word, 8), std::memcpy(pages + kPage - 4, &word, 8);
  munmap(pages + 2 * kPage, kPage);
  mprotect(pages + 3 * kPage, kPage, PROT_NONE);
  struct Case {
    const void* address;
    bool mapped;
  };
  auto at = [](uint64_t address) { return reinterpret_cast<const void*>(address); };
  const Case cases[] = {{pages, true},
                        {pages + kPage - 4, true},  // across two pages
                        {pages + kPage + 13, true},
                        {pages + 2 * kPage - 4, false},  // its end is not mapped
                        {pages + 2 * kPage, false},
                        {pages + 3 * kPage, false},
                        {nullptr, false},
                        {at(8), false},
                        {at(0x0000800000000000), false},  // not an address of this machine
                        {at(0xffffffffff600000), false},
                        {at(UINT64_MAX), false},
                        {at(UINT64_MAX - 7), false}};
  for (unsigned long i = 0; i < count; ++i)
    for (const Case& c : cases) {
      int64_t there = 0;
      if (c.mapped) std::memcpy(&there, c.address, 8);
      read_sum += there;
      t_address(c.address);
    }
}

unsigned long to_leave = 0;  // not in a register, which longjmp would bring back

void leave(unsigned long count) {
  leaves = true;
  for (to_leave = count; to_leave > 0; --to_leave)
    if (setjmp(target) == 0) t_call(to_leave, 1);
  leaves = false;
}

std::string truth() {
  auto number = [](const char* name, int64_t value) {
    return std::string("\"") + name + "\":" + std::to_string(value);
  };
  return number("i8", sums[0]) + "," + number("i16", sums[1]) + "," + number("i32", sums[2]) + "," +
         number("i64", sums[3]) + "," + number("inner", inner_sum) + "," + number("read", read_sum) + "," +
         protocol::field("callee", callee_calls) + "," + protocol::field("result", callee_results) + "," +
         protocol::field("changed", changed);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  v_struct.word = v_thread + first::v_twice + v_pad[0];
  protocol::say_event("ready", truth());
  for (protocol::Command command = protocol::next_command(); command.word != "quit" && !command.word.empty();
       command = protocol::next_command()) {
    if (command.word == "go") go(command.number);
    if (command.word == "read") read_addresses(command.number);
    for (unsigned long i = 0; command.word == "call" && i < command.number; ++i)
      if (checked_call(i, i * 3) != (i ^ (i * 3))) ++changed;
    for (unsigned long i = 0; command.word == "through" && i < command.number; ++i)
      if (t_through(i) != (i ^ 2) + 1) ++changed;
    if (command.word == "rounds") {  // what the loop computes, once more
      uint64_t sum = 0;
      for (uint64_t i = 0; i < command.number; ++i) sum = ((sum + 12) ^ 3) + i * 3;
      if (t_rounds(command.number) != sum) ++changed;
    }
    if (command.word == "slow") {
      sleeps_ms = command.number;
      if (checked_call(5, 9) != (5 ^ 9)) ++changed;
      sleeps_ms = 0;
    }
    if (command.word == "leave") leave(command.number);
    protocol::say_event("done", truth());
  }
  return 0;
}
