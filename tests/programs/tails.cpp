// Functions that end with a call, which -O2 makes a jump of: what happens in the called function belongs to
// them.
//
//   tails [SECONDS]
//
// Commands (protocol.h):
//
//   go N       N times: each of the cases below, in two threads. Answers the truth since the program's start:
//              {"event":"done","t_direct":[events, nanoseconds],...}
//   loose N    N times t_loose, which ends with a jump through a pointer
//   quit       ends with status 0
//
// The truth is the caller's: it knows when a function is active by having called it, and reads the clock
// around that call. Events are calls of t_event.
#include "tails.h"

#include <time.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "protocol.h"

#define CASES(X) \
  X(t_direct)    \
  X(t_linked)    \
  X(t_chain)     \
  X(t_middle)    \
  X(t_abroad)    \
  X(t_frees)     \
  X(t_branch)    \
  X(t_deep)      \
  X(t_even)      \
  X(t_throws)    \
  X(t_jumps)     \
  X(t_catches)   \
  X(t_handled)   \
  X(t_loose)

namespace {

enum Case {
#define X(name) k_##name,
  CASES(X)
#undef X
      kCases
};

struct Truth {
  std::atomic<uint64_t> events, ns;
};
Truth truth[kCases];
thread_local uint64_t active[kCases], since[kCases];
thread_local jmp_buf jump_target;
thread_local long nap_ns;  // in t_work
std::atomic<uint64_t> sink;

__attribute__((noinline)) uint64_t now() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return static_cast<uint64_t>(at.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(at.tv_nsec);
}

void enter(Case which) {
  if (active[which]++ == 0) since[which] = now();
}

// Around a call: what it has entered is left when it comes back, by whatever way.
class Call {
 public:
  Call() { memcpy(before_, active, sizeof active); }
  ~Call() {
    const uint64_t end = now();
    for (int which = 0; which < kCases; which++) {
      if (active[which] != 0 && before_[which] == 0) truth[which].ns += end - since[which];
      active[which] = before_[which];
    }
  }

 private:
  uint64_t before_[kCases];
};

}  // namespace

COUNTED void t_event() {
  for (int which = 0; which < kCases; which++)
    if (active[which]) truth[which].events++;
}

COUNTED uint64_t t_work(uint64_t x) {
  t_event();
  if (nap_ns) {
    const timespec nap{0, nap_ns};
    nanosleep(&nap, nullptr);
  }
  t_event();
  return x * 7 + 1;
}

COUNTED uint64_t t_direct(uint64_t x) {
  enter(k_t_direct);
  return t_work(x + 1);
}

// Through the linkage table.
COUNTED uint64_t t_linked(uint64_t x) {
  enter(k_t_linked);
  t_event();
  return more_work(x + 1);
}

// Three jumps; the functions in the middle are asked for, too.
COUNTED uint64_t t_middle(uint64_t x) {
  enter(k_t_middle);
  t_event();
  return t_direct(x + 3);
}
COUNTED uint64_t t_chain(uint64_t x) {
  enter(k_t_chain);
  t_event();
  return t_middle(x + 2);
}

// To the library, there to another function, and back.
COUNTED uint64_t t_abroad(uint64_t x) {
  enter(k_t_abroad);
  return more_chain(x);
}

// To the C library.
COUNTED void t_frees(void* block) {
  enter(k_t_frees);
  t_event();
  free(block);
}

// A conditional jump where the compiler makes one.
COUNTED uint64_t t_branch(uint64_t x) {
  enter(k_t_branch);
  if (x & 1) return t_work(x);
  return x;
}

// The inner frames end in jumps, too, before the outermost one does.
COUNTED uint64_t t_deep(uint64_t n) {
  enter(k_t_deep);
  t_event();
  if (n > 0) sink += t_deep(n - 1);
  t_event();
  return t_work(n);
}

// Each ends with a jump to the other, until one ends otherwise.
COUNTED uint64_t t_even(uint64_t n);
COUNTED uint64_t t_odd(uint64_t n) {
  sink += n;
  return t_even(n - 1);
}
COUNTED uint64_t t_even(uint64_t n) {
  enter(k_t_even);
  if (n == 0) return t_work(n);
  t_event();
  return t_odd(n - 1);
}

// The function that it ends with does not return.
COUNTED uint64_t t_thrower(uint64_t x) {
  t_event();
  if (x < 1000) throw 1;
  return x;
}
COUNTED uint64_t t_throws(uint64_t x) {
  enter(k_t_throws);
  return t_thrower(x);
}
COUNTED uint64_t t_jumper(uint64_t x) {
  t_event();
  if (x < 1000) longjmp(jump_target, 1);
  return x;
}
COUNTED uint64_t t_jumps(uint64_t x) {
  enter(k_t_jumps);
  return t_jumper(x);
}

// The function that it ends with catches, and goes on.
COUNTED uint64_t t_catcher(uint64_t x) {
  {
    Call call;
    try {
      sink += t_throws(x);
    } catch (int) {
      memset(active + k_t_throws, 0, sizeof active[0]);
      t_event();
    }
  }
  t_event();
  return x;
}
COUNTED uint64_t t_catches(uint64_t x) {
  enter(k_t_catches);
  return t_catcher(x);
}

// A handler of a signal runs in the function that it ends with, and calls such functions.
COUNTED void t_on_signal(int) {
  {
    Call call;
    sink += t_direct(5);
  }
  t_event();
}
COUNTED uint64_t t_raiser(uint64_t x) {
  raise(SIGUSR1);
  t_event();
  return x + 1;
}
COUNTED uint64_t t_handled(uint64_t x) {
  enter(k_t_handled);
  return t_raiser(x);
}

// Nobody knows where it goes.
uint64_t (*volatile somewhere)(uint64_t) = t_work;
COUNTED uint64_t t_loose(uint64_t x) {
  enter(k_t_loose);
  uint64_t (*next)(uint64_t) = somewhere;
  return next(x);
}

namespace {

template <typename Work>
__attribute__((noinline)) void call(Work work) {
  Call around;
  work();
}

void call_thrower(uint64_t i) {
  Call around;
  try {
    sink += t_throws(i);
  } catch (int) {
  }
}

void call_jumper(uint64_t i) {
  Call around;
  if (setjmp(jump_target) == 0) sink += t_jumps(i);
}

void go(uint64_t times) {
  for (uint64_t i = 0; i < times; i++) {
    nap_ns = i % 4 == 0 ? 2'000'000 : 0;
    call([&] { sink += t_direct(i); });
    call([&] { sink += t_linked(i); });
    call([&] { sink += t_chain(i); });
    call([&] { sink += t_abroad(i); });
    call([&] { t_frees(malloc(40 + i)); });
    free(malloc(30));
    sink += t_work(i);  // called by nobody who is asked for
    call([&] { sink += t_branch(i); });
    nap_ns = 0;
    call([&] { sink += t_deep(3); });
    call([&] { sink += t_even(2 * (i % 100)); });
    call_thrower(i % 100);
    call_jumper(i % 100);
    call([&] { sink += t_catches(i % 100); });
    call([&] { sink += t_handled(i); });
    t_event();
  }
}

void loose(uint64_t times) {
  nap_ns = 0;
  for (uint64_t i = 0; i < times; i++) call([&] { sink += t_loose(i); });
}

std::string told() {
  std::string out;
#define X(name)                                                                                             \
  out += std::string(out.empty() ? "" : ",") + "\"" #name "\":[" + std::to_string(truth[k_##name].events) + \
         "," + std::to_string(truth[k_##name].ns) + "]";
  CASES(X)
#undef X
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  signal(SIGUSR1, t_on_signal);
  protocol::say_event("ready", told());
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      std::thread other(go, command.number);
      go(command.number);
      other.join();
    } else if (command.word == "loose") {
      loose(command.number);
    } else {
      return command.word == "quit" ? 0 : 1;
    }
    protocol::say_event("done", told());
  }
}
