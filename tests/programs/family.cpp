// Five hundred functions, and for each the truth of how often t_hit ran while it was on the thread's stack.
//
//   family [SECONDS]
//
// At "ready" a thread sleeps inside t_f5, called by t_f3 twice. Commands (protocol.h); answers carry
// {"hits":..,"during":[..]} since the program's start, `during` by the function's number, the last one
// t_signal's:
//
//   go N       four threads, N times each: a walk through the functions, with recursion, t_hit in each
//   throw N    the same; every third walk is left by an exception, caught some frames further out
//   jump N     likewise by longjmp
//   raise N    likewise with a signal, sent to the thread itself, whose handler walks too
//   storm N    the main thread, until N signals of a timer have been handled: short calls of t_signal,
//              which calls t_hit; the handler does the same
//   step N     the main thread: N short calls of t_chain, which jumps to t_signal, one that is left by an
//              exception and one by longjmp; behind each instruction of all that a handler calls t_chain, too
//   stumble N  the same behind one instruction of eight, by chance
//   wake       the sleeper calls t_hit in each of its frames and leaves them
//   quit       ends with status 0
//
// Each thread keeps a list of the functions that it is in. What an exception or a jump leaves is taken
// off the list where it arrives.
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <thread>
#include <vector>

#include "protocol.h"

#define COUNTED extern "C" __attribute__((noinline, used))

namespace {

constexpr int kFunctions = 500, kSignal = kFunctions;
enum class Leave { normally, by_throw, by_jump, by_signal, after_wake };

std::atomic<uint64_t> hits, during[kFunctions + 1];
std::atomic<uint64_t> handled;
int sleep_pipe[2];
std::atomic<bool> asleep{false};

void sleep_inside() {
  char c = 0;
  asleep = true;
  while (read(sleep_pipe[0], &c, 1) < 0 && errno == EINTR) {
  }
}

struct Walk {
  uint32_t random = 1;
  Leave leave = Leave::normally;
  int active = 0;
  int list[256];  // with repetitions
  uint64_t depth[kFunctions + 1] = {};
  jmp_buf target;

  uint32_t next(uint32_t below) {
    random = random * 1664525 + 1013904223;
    return (random >> 8) % below;
  }
  void back_to(int height) {
    while (active > height) --depth[list[--active]];
  }
};
thread_local Walk walk;

// In a function while it lives; not unwound by exceptions, as code in C would not be.
void enter(int function) {
  ++walk.depth[function];
  walk.list[walk.active++] = function;
}
void leave() {
  --walk.depth[walk.list[--walk.active]];
}

}  // namespace

COUNTED void t_hit() {
  hits.fetch_add(1, std::memory_order_relaxed);
  for (int i = 0; i < walk.active; ++i) {
    bool first = true;
    for (int k = 0; k < i; ++k) first = first && walk.list[k] != walk.list[i];
    if (first) during[walk.list[i]].fetch_add(1, std::memory_order_relaxed);
  }
}

using Function = void (*)(int);
extern Function const functions[kFunctions];

namespace {

// In each function itself: a call would be a jump out of it.
__attribute__((always_inline)) inline void step(int function, int levels) {
  enter(function);
  t_hit();
  if (walk.leave == Leave::after_wake) {
    if (levels > 0)
      functions[levels == 1 ? 5 : 3](levels - 1);
    else
      sleep_inside();
  } else if (levels > 0) {
    // A third of the steps goes to a few functions, so that they meet themselves.
    uint32_t to = walk.next(3) ? walk.next(kFunctions) : walk.next(4);
    functions[to](levels - 1);
    if (walk.next(8) == 0) functions[walk.next(kFunctions)](0);
  } else if (walk.leave == Leave::by_throw) {
    throw 1;
  } else if (walk.leave == Leave::by_jump) {
    longjmp(walk.target, 1);
  } else if (walk.leave == Leave::by_signal) {
    walk.leave = Leave::normally;
    raise(SIGUSR1);
  }
  t_hit();
  leave();
}

}  // namespace

#define F1(n)                       \
  COUNTED void t_f##n(int levels) { \
    step(n, levels);                \
  }
#define F10(n) F1(n##0) F1(n##1) F1(n##2) F1(n##3) F1(n##4) F1(n##5) F1(n##6) F1(n##7) F1(n##8) F1(n##9)
#define F100(n) \
  F10(n##0) F10(n##1) F10(n##2) F10(n##3) F10(n##4) F10(n##5) F10(n##6) F10(n##7) F10(n##8) F10(n##9)
F1(0)
F1(1)
F1(2)
F1(3) F1(4) F1(5) F1(6) F1(7) F1(8) F1(9) F10(1) F10(2) F10(3) F10(4) F10(5) F10(6) F10(7) F10(8) F10(9)
    F100(1) F100(2) F100(3) F100(4)
#undef F1
#define F1(n) t_f##n,
        Function const functions[kFunctions] = {F1(0) F1(1) F1(2) F1(3) F1(4) F1(5) F1(6) F1(7) F1(8) F1(9)
                                                    F10(1) F10(2) F10(3) F10(4) F10(5) F10(6) F10(7) F10(8)
                                                        F10(9) F100(1) F100(2) F100(3) F100(4)};

COUNTED void t_signal(Leave how) {
  enter(kSignal);
  t_hit();
  leave();
  if (how == Leave::by_throw) throw 1;
  if (how == Leave::by_jump) longjmp(walk.target, 1);
}

// Ends with a jump to t_signal.
extern "C" void t_chain(Leave how);
asm(R"(
  .globl t_chain
  .type t_chain, @function
t_chain:
  .cfi_startproc
  add $1, %edi
  sub $1, %edi
  jmp t_signal
  .cfi_endproc
  .size t_chain, . - t_chain
)");

COUNTED void t_outer(int height) {
  if (walk.leave == Leave::by_jump) {
    if (setjmp(walk.target) == 0)
      functions[walk.next(kFunctions)](6);
    else
      walk.back_to(height);
  } else {
    try {
      functions[walk.next(kFunctions)](6);
    } catch (int) {
      walk.back_to(height);
    }
  }
  t_hit();
}

// What it is called for may leave; so something instrumented is always on the stack around it.
COUNTED void t_root(Leave how) {
  walk.leave = Leave::normally;
  functions[walk.next(kFunctions)](3);
  walk.leave = how;
  t_outer(walk.active);
  walk.leave = Leave::normally;
}

namespace {

void on_raise(int) {
  const Leave before = walk.leave;
  walk.leave = Leave::normally;
  functions[walk.next(4)](2);
  walk.leave = before;
}

void on_timer(int) {
  ++handled;
  t_signal(Leave::normally);
}

void go(unsigned long rounds, Leave how) {
  std::vector<std::thread> threads;
  for (uint32_t seed = 1; seed <= 4; ++seed)
    threads.emplace_back([=] {
      walk.random = seed;
      for (unsigned long i = 0; i < rounds; ++i) t_root(i % 3 == 2 ? how : Leave::normally);
    });
  for (std::thread& thread : threads) thread.join();
}

void storm(unsigned long signals) {
  const uint64_t until = handled + signals;
  itimerval every{{0, 50}, {0, 50}}, never{};
  setitimer(ITIMER_REAL, &every, nullptr);
  while (handled < until) t_signal(Leave::normally);
  setitimer(ITIMER_REAL, &never, nullptr);
}

// With the trap flag set, in every context that a handler leaves.
volatile bool stepping;
uint32_t chance, rarely;  // of every `rarely` instructions one gets a handler's call
void on_trap(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  flags = stepping ? flags | kTrapFlag : flags & ~kTrapFlag;
  if (!stepping) return;
  chance = chance * 1664525 + 1013904223;
  if ((chance >> 16) % rarely == 0) t_chain(Leave::normally);
}

void step_through(Leave how) {
  try {
    if (setjmp(walk.target) == 0) t_chain(how);
  } catch (int) {
  }
}

void step_often(unsigned long calls, uint32_t instructions) {
  rarely = instructions;
  stepping = true;
  raise(SIGTRAP);
  for (unsigned long i = 0; i < calls; ++i) step_through(Leave::normally);
  step_through(Leave::by_throw);
  step_through(Leave::by_jump);
  step_through(Leave::normally);
  stepping = false;
  raise(SIGTRAP);
}

std::string truth() {
  std::string list;
  for (const auto& one : during) list += (list.empty() ? "" : ",") + std::to_string(one);
  return protocol::field("hits", hits) + ",\"during\":[" + list + "]";
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? atoi(argv[1]) : 120;
  sigset_t alarms;  // for the main thread alone
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarms, nullptr);
  std::thread([=] {
    sleep(static_cast<unsigned>(seconds));  // not alarm(), whose signal is the timer's
    _exit(97);
  }).detach();
  struct sigaction action {};
  action.sa_handler = on_raise;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  if (pipe(sleep_pipe) != 0) return 1;
  bool awake = false;
  std::thread sleeper([] {
    walk.leave = Leave::after_wake;
    t_f3(2);
  });
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  while (!asleep) usleep(1000);
  usleep(20000);  // from the store to the system call
  protocol::say_event("ready", truth());
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      go(command.number, Leave::normally);
    } else if (command.word == "throw") {
      go(command.number, Leave::by_throw);
    } else if (command.word == "jump") {
      go(command.number, Leave::by_jump);
    } else if (command.word == "raise") {
      go(command.number, Leave::by_signal);
    } else if (command.word == "storm") {
      storm(command.number);
    } else if (command.word == "step") {
      step_often(command.number, 1);
    } else if (command.word == "stumble") {
      step_often(command.number, 8);
    } else if (command.word == "wake" && !awake) {
      awake = true;
      if (write(sleep_pipe[1], "w", 1) != 1) return 1;
      sleeper.join();
    } else {
      break;
    }
    protocol::say_event("done", truth());
  }
  if (!awake) {
    if (write(sleep_pipe[1], "w", 1) != 1) return 1;
    sleeper.join();
  }
  return 0;
}
