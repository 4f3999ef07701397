// Functions that run themselves for known times between what they call.
//
//   own_times [SECONDS]
//
//   go N   four new threads, N times each call these, by a key from 0 to 3 in the first argument. A signal that may come
//          anywhere in them calls o_plain, too. Answers {"event":"done",...} with totals since the start, of the calls
//          that returned: for each function and key FUNCTION_KEY_count, and bounds of the sum of what the function ran
//          itself in ns, FUNCTION_KEY_least and FUNCTION_KEY_most
//   quiet N  the same without the signal, whose handler may run in the middle of a hit
//   quit   ends with status 0
//
//   o_plain     calls directly and through a pointer
//   o_deep      calls itself
//   o_catches   catches what it has called throws, and goes on
//   o_passes    lets it pass, now and then, and calls a destructor on the way
//   o_returns   comes back to its setjmp by longjmp
//   o_leaves    leaves by longjmp, now and then
//   o_tail      ends with a jump to o_work
//   o_moves     moves the stack pointer by what it was given, so its frame is found by another register
//   o_sleeps    calls what sleeps
//   o_inner     is what o_outer calls, and calls, too
//   o_hides     has its frame in a register that is none for frames, and o_tells_not has no frame information
// From the start on, a thread is in o_waits, and returns from it with the first command.
#include <alloca.h>
#include <sys/time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <csetjmp>
#include <csignal>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "protocol.h"
#include "truth.h"

namespace {

constexpr int kKeys = 4;
enum Function {
  kPlain,
  kDeep,
  kCatches,
  kPasses,
  kReturns,
  kLeaves,
  kTail,
  kMoves,
  kSleeps,
  kOuter,
  kInner,
  kFunctions
};
constexpr const char* kNames[] = {"o_plain", "o_deep",  "o_catches", "o_passes", "o_returns", "o_leaves",
                                  "o_tail",  "o_moves", "o_sleeps",  "o_outer",  "o_inner"};

// In ticks, which reads no clock by a call.
struct Sums {
  unsigned long count = 0;
  long least = 0, most = 0;
};

std::mutex mutex;
Sums all[kFunctions][kKeys];
thread_local Sums sums[kFunctions][kKeys], handled[kKeys];
thread_local long called = 0;  // by the call that runs: what its callees say that they took
thread_local jmp_buf back, out;
volatile bool first_command = false;
double ns_per_tick = 0;

long ticks() {
  return static_cast<long>(__rdtsc());
}

// In the function that it stands in.
[[gnu::always_inline]] inline long spin(long until) {
  const long begin = ticks();
  long end = begin;
  while (end - begin < until) end = ticks();
  return end - begin;
}

}  // namespace

extern "C" {
// What is called. Adds for how long it ran itself.
[[gnu::noinline, gnu::used]] void o_work(long until) {
  called += spin(until);
}
[[gnu::noinline, gnu::used]] void o_throws(long until) {
  called += spin(until);
  throw std::runtime_error("as it shall");
}
[[gnu::noinline, gnu::used]] void o_jumps(long until) {
  called += spin(until);
  longjmp(back, 1);
}
}

namespace {

void (*volatile indirect)(long) = o_work;

struct Cleans {
  ~Cleans() { o_work(700); }
};

}  // namespace

// Each yields for how long it ran itself, at least.
extern "C" {
[[gnu::noinline, gnu::used]] long o_plain(long key, long until) {
  long own = spin(until);
  o_work(1500 + key);
  own += spin(until / 2);
  indirect(900);
  own += spin(until);
  return own;
}

[[gnu::noinline, gnu::used]] long o_deep(long key, long depth) {
  long own = spin(300 + key * 50);
  if (depth == 5) raise(SIGPROF);
  if (depth > 0) {
    const long before = own;
    own = o_deep(key, depth - 1);
    own += before;
    own += spin(200);
  }
  asm volatile("" : : : "memory");
  return own;
}

[[gnu::noinline, gnu::used]] long o_catches(long key) {
  long own = spin(500 + key * 100);
  try {
    o_throws(800);
  } catch (const std::runtime_error&) {
    own += spin(2000);
    o_work(600);
    own += spin(400);
  }
  own += spin(300);
  return own;
}

[[gnu::noinline, gnu::used]] long o_passes(long key, long number) {
  Cleans cleans;
  long own = spin(400 + key * 100);
  if (number % 4 == 0)
    o_throws(500);
  else
    o_work(500);
  own += spin(300);
  return own;
}

[[gnu::noinline, gnu::used]] long o_returns(long key) {
  volatile long own = spin(400 + key * 100);
  if (setjmp(back) == 0) {
    own = own + spin(300);
    o_jumps(900);
  }
  own = own + spin(1200);
  return own;
}

[[gnu::noinline, gnu::used]] long o_leaves(long key, long number) {
  long own = spin(400 + key * 100);
  o_work(300);
  if (number % 4 == 0) longjmp(out, 1);
  own += spin(200);
  return own;
}

[[gnu::noinline, gnu::used]] void o_tail(long key, long until) {
  spin(until + key * 100);
  asm volatile("" : : : "memory");
  o_work(until * 4);  // a jump, with -O2
}

[[gnu::noinline, gnu::used]] long o_moves(long key, long size) {
  auto* room = static_cast<volatile char*>(alloca(static_cast<size_t>(size)));
  room[0] = 1;
  long own = spin(500 + key * 100);
  o_work(700);
  own += spin(300);
  room[size - 1] = 2;
  indirect(300);
  own += spin(100);
  return own;
}

[[gnu::noinline, gnu::used]] long o_sleeps(long key) {
  long own = spin(500 + key * 100);
  usleep(300);
  own += spin(500);
  return own;
}

[[gnu::noinline, gnu::used]] long o_inner(long key) {
  long own = spin(600 + key * 100);
  o_work(400);
  own += spin(300);
  return own;
}

[[gnu::noinline, gnu::used]] long o_outer(long key) {
  long own = spin(300 + key * 100);
  const long others = called, begin = ticks();
  called = 0;
  const long its = o_inner(key);
  sums[kInner][key].most += ticks() - begin - called;
  sums[kInner][key].least += its;
  sums[kInner][key].count++;
  called += others + its;
  own += spin(200);
  return own;
}

[[gnu::noinline, gnu::used]] void o_waits() {
  while (!first_command) usleep(1000);
  asm volatile("" : : : "memory");
}
}

// In each, rbx has the stack pointer while o_work is called.
asm(R"(
        .text
        .globl  o_hides, o_tells_not
        .type   o_hides, @function
o_hides:
        .cfi_startproc
        pushq   %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
        movq    %rsp, %rbx
        .cfi_def_cfa %rbx, 16
        movl    $500, %edi
        call    o_work
        movq    %rbx, %rsp
        popq    %rbx
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   o_hides, . - o_hides
        .type   o_tells_not, @function
o_tells_not:
        pushq   %rbx
        movl    $500, %edi
        call    o_work
        xorl    %eax, %eax
        xorl    %edx, %edx
        xorl    %ecx, %ecx
        popq    %rbx
        ret
        .size   o_tells_not, . - o_tells_not
)");
extern "C" void o_hides();
extern "C" void o_tells_not();

namespace {

// Adds a call: at least what it says that it ran itself, at most what it took without what its callees ran.
template <typename Call>
void measure(Sums& into, Call call) {
  const long others = called;
  called = 0;
  const long begin = ticks();
  const long own = call();
  into.most += ticks() - begin - called;
  into.least += own;
  into.count++;
  called = others;
}

void handle(int) {
  measure(handled[3], [] { return o_plain(3, 400); });
}

void deep(long key, long depth) {
  Sums one;
  measure(one, [&] { return o_deep(key, depth); });
  Sums& into = sums[kDeep][key];
  into.count += static_cast<unsigned long>(depth) + 1;
  into.least += one.least;
  into.most += one.most;
}

void passes(long key, long number) {
  try {
    measure(sums[kPasses][key], [&] { return o_passes(key, number); });
  } catch (const std::runtime_error&) {
  }
}

[[gnu::noinline]] void leaves(long key, long number) {
  if (setjmp(out) == 0) measure(sums[kLeaves][key], [&] { return o_leaves(key, number); });
}

// What it calls in the end is what it becomes.
void tail(long key) {
  const long others = called;
  called = 0;
  const long begin = ticks();
  o_tail(key, 500);
  sums[kTail][key].most += ticks() - begin - called;
  sums[kTail][key].least += 500 + key * 100;
  sums[kTail][key].count++;
  called = others;
}

void mask(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPROF);
  pthread_sigmask(how, &signals, nullptr);
}

void work(unsigned long n, bool is_quiet) {
  if (!is_quiet) mask(SIG_UNBLOCK);
  for (unsigned long i = 0; i < n; i++) {
    const auto number = static_cast<long>(i);
    const long key = number % 3;  // 3 is that of the handler
    measure(sums[kPlain][key], [&] { return o_plain(key, 800); });
    deep(key, number % 12);
    measure(sums[kCatches][key], [&] { return o_catches(key); });
    passes(key, number);
    measure(sums[kReturns][key], [&] { return o_returns(key); });
    leaves(key, number);
    tail(key);
    measure(sums[kMoves][key], [&] { return o_moves(key, 64 + number % 5 * 16); });
    if (number % 10 == 0) measure(sums[kSleeps][key], [&] { return o_sleeps(key); });
    measure(sums[kOuter][key], [&] { return o_outer(key); });
    measure(sums[kInner][key], [&] { return o_inner(key); });
    o_hides();
    o_tells_not();
  }
  mask(SIG_BLOCK);
  std::lock_guard lock(mutex);
  const auto add = [](Sums& into, const Sums& one) {
    into.count += one.count;
    into.least += one.least;
    into.most += one.most;
  };
  for (int f = 0; f < kFunctions; f++)
    for (int key = 0; key < kKeys; key++) add(all[f][key], sums[f][key]);
  add(all[kPlain][3], handled[3]);
}

void tell() {
  std::string text;
  for (int f = 0; f < kFunctions; f++)
    for (int key = 0; key < kKeys; key++) {
      const std::string name = std::string(kNames[f]) + "_" + std::to_string(key);
      const Sums& sum = all[f][key];
      const auto ns = [](long number) {
        return static_cast<unsigned long>(static_cast<double>(number) * ns_per_tick);
      };
      text += (text.empty() ? "" : ",") + protocol::field((name + "_count").c_str(), sum.count) + "," +
              protocol::field((name + "_least").c_str(), ns(sum.least)) + "," +
              protocol::field((name + "_most").c_str(), ns(sum.most));
    }
  protocol::say_event("done", text);
}

void measure_ticks() {
  const long from = now(), first = ticks();
  while (now() - from < 50000000) {
  }
  ns_per_tick = static_cast<double>(now() - from) / static_cast<double>(ticks() - first);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  measure_ticks();
  std::signal(SIGPROF, handle);
  mask(SIG_BLOCK);
  const itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &often, nullptr);
  std::thread waits(o_waits);
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); command.word == "go" || command.word == "quiet";
       command = protocol::next_command()) {
    first_command = true;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(work, command.number, command.word == "quiet");
    for (std::thread& thread : threads) thread.join();
    tell();
  }
  first_command = true;
  waits.join();
  return 0;
}
