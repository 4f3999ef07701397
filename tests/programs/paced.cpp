// What the functions of a program take by its own clock, bare and while they are timed.
//
//   paced [SECONDS]
//
//   batch      runs every part once. Answers for each of them "NAME":[CALLS,INNER,OUTER]: nanoseconds of the
//              wall clock between the first and the last instruction of the function, read by itself, where
//              it does that (else 0), and around its calls, read by who calls it.
//   cpu        the same of the parts that sleep nowhere, by the CPU time of the thread.
//   quit       ends with status 0
//
// The parts: sort_all calls compare many times; wait_some sleeps 2 ms; long_work takes more than 20 us and
// calls nothing; nest_0 calls nest_1, and so on to nest_9, each with work of its own; recur calls itself ten
// deep; thrower ends by an exception that its caller catches; four threads call thread_work; short_work takes some
// 5 us, behind a thousand calls of touch, which does next to nothing.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

#include "protocol.h"

#define TIMED extern "C" __attribute__((noinline, used))

namespace {

clockid_t clock_used = CLOCK_MONOTONIC;
// Without a call: exclusive timers would stop and start around it, inside of what is measured here.
inline __attribute__((always_inline)) int64_t now() {
  timespec time{};
  int64_t result = SYS_clock_gettime;
  asm volatile("syscall" : "+a"(result) : "D"(clock_used), "S"(&time) : "rcx", "r11", "memory");
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

constexpr size_t kNumbers = 2048;
uint32_t numbers[kNumbers], spare[kNumbers];
std::atomic<int64_t> inner_ns;

// Each step waits for the one before.
inline uint64_t work(uint64_t x, int steps) {
  for (int i = 0; i < steps; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));
  }
  return x;
}
// Keeps a call from being the last thing of its function: such a call is a jump.
inline void stay() {
  asm volatile("" ::: "memory");
}

}  // namespace

TIMED int compare(const uint32_t* a, const uint32_t* b) {
  return (*a > *b) - (*a < *b);
}

TIMED void sort_all() {
  uint32_t* from = numbers;
  uint32_t* to = spare;
  for (size_t width = 1; width < kNumbers; width *= 2) {
    for (size_t start = 0; start < kNumbers; start += 2 * width) {
      size_t a = start, b = start + width, end_a = b, end_b = b + width;
      for (size_t at = start; at < end_b; at++) {
        bool first = a < end_a && (b >= end_b || compare(&from[a], &from[b]) <= 0);
        to[at] = first ? from[a++] : from[b++];
      }
    }
    std::swap(from, to);
  }
  stay();
}

TIMED void wait_some() {
  int64_t begun = now();
  usleep(2000);
  inner_ns += now() - begun;
}

TIMED uint64_t long_work(uint64_t x) {
  int64_t begun = now();
  x = work(x, 25000);
  inner_ns += now() - begun;
  return x;
}

#define NEST(n, next)                   \
  TIMED uint64_t nest_##n(uint64_t x) { \
    x = work(x, 150);                   \
    x += next(x);                       \
    asm volatile("" : "+r"(x));         \
    return x;                           \
  }
TIMED uint64_t nest_9(uint64_t x) {
  return work(x, 150);
}
NEST(8, nest_9)
NEST(7, nest_8)
NEST(6, nest_7)
NEST(5, nest_6)
NEST(4, nest_5)
NEST(3, nest_4)
NEST(2, nest_3)
NEST(1, nest_2)
NEST(0, nest_1)

TIMED uint64_t recur(uint64_t x, int depth) {
  x = work(x, 150);
  if (depth > 1) x += recur(x, depth - 1);
  asm volatile("" : "+r"(x));
  return x;
}

TIMED uint64_t thrower(uint64_t x) {
  int64_t begun = now();
  x = work(x, 25000);
  inner_ns += now() - begun;
  if (x != 1) throw x;
  return x;
}

TIMED uint64_t thread_work(uint64_t x) {
  int64_t begun = now();
  x = work(x, 25000);
  inner_ns += now() - begun;
  return x;
}

TIMED uint64_t short_work(uint64_t x) {
  int64_t begun = now();
  x = work(x, 5000);
  inner_ns += now() - begun;
  return x;
}

TIMED void touch(uint64_t* cell) {
  ++*cell;
}

TIMED void touch_many() {
  uint64_t cells[64] = {};
  for (int i = 0; i < 1000; i++) touch(&cells[i % 64]);
  asm volatile("" ::"r"(cells[0]));
}

namespace {

uint64_t value = 1;

template <typename Part>
std::string part(const char* name, int calls, Part&& call) {
  inner_ns = 0;
  int64_t begun = now();
  for (int i = 0; i < calls; i++) call();
  int64_t outer = now() - begun;
  return std::string("\"") + name + "\":[" + std::to_string(calls) + "," + std::to_string(inner_ns) + "," +
         std::to_string(outer) + "]";
}

void mix_numbers() {
  for (uint32_t& number : numbers) number = static_cast<uint32_t>(value = work(value, 1) >> 7);
}

// The outer time is that of all four.
std::string run_threads() {
  inner_ns = 0;
  std::atomic<int64_t> outer = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] {
      uint64_t x = 1;
      for (int k = 0; k < 20; k++) {
        int64_t begun = now();
        x = thread_work(x);
        outer += now() - begun;
      }
      asm volatile("" ::"r"(x));
    });
  for (std::thread& thread : threads) thread.join();
  return "\"thread_work\":[80," + std::to_string(inner_ns) + "," + std::to_string(outer) + "]";
}

std::string batch(bool sleeps) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ",") + text; };
  mix_numbers();
  add(part("sort_all", 1, [] { sort_all(); }));
  if (sleeps) add(part("wait_some", 2, [] { wait_some(); }));
  add(part("long_work", 20, [] { value = long_work(value); }));
  add(part("nest_0", 100, [] { value = nest_0(value); }));
  add(part("nest_9", 300, [] { value = nest_9(value); }));
  add(part("recur", 100, [] { value = recur(value, 10); }));
  add(part("thrower", 5, [] {
    try {
      value = thrower(value);
    } catch (uint64_t x) {
      value = x;
    }
  }));
  add(run_threads());
  add(part("short_work", 100, [] {
    touch_many();
    value = short_work(value);
  }));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  protocol::say_event("ready");
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word.empty() || command.word == "quit") return 0;
    clock_used = command.word == "cpu" ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    protocol::say_event("done", batch(command.word == "batch"));
  }
}
