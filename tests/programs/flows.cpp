// Control flow that is not call and return, through functions that are measured.
//
//   flows [SECONDS]
//
// f_work counts itself; f_inside calls it twice and counts those calls; everything else passes through these.
// Commands (protocol.h), each done N times; every answer carries {"work":..,"returns":..,"inside":..}: calls
// of f_work, its returns, and calls of it while f_inside was on the calling stack, since the start:
//
//   switch N    two stacks of makecontext take turns by swapcontext in the middle of f_work's caller
//   resume N    one stack is left inside of f_inside, and f_work is called on the other; then it goes on
//   cancel N    a thread is cancelled in f_inside, three frames deep, at a cancellation point
//   async N     the same, asynchronously, while it counts
//   leave N     a thread ends itself there by pthread_exit
//   storm N     f_work for N milliseconds, while timers of 10 kHz and of 3 kHz interrupt it: the handler of the one,
//               on an alternate stack, calls f_inside, and that of the other interrupts the first and calls f_other
//   catch N     a handler on an alternate stack throws and catches while f_inside is on the thread's own
//   above N     the same in a thread whose own stack is below that other one: not even the order of addresses tells
//   trace N     backtrace() four frames deep: answers "trace":[addresses], those of the last time
//   chain N     f_outer calls f_middle, that f_hold, and that f_work
//   hold        the same in a thread, which stays in f_hold; release ends it
//   quit        ends with status 0
#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>
#include <vector>

#include "protocol.h"

#define MEASURED extern "C" __attribute__((noinline, used))

namespace {

std::atomic<uint64_t> work, returns, inside, others;
std::atomic<bool> there, holding;
std::string trace;
int pipe_ends[2];
ucontext_t main_context, other_context;

enum class Do { nothing, wait_for_cancel, count_for_ever, leave, swap, interrupt };

void wait() {
  char c = 0;
  there = true;
  while (read(pipe_ends[0], &c, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

MEASURED void f_work(bool is_inside) {
  work.fetch_add(1);
  if (is_inside) inside.fetch_add(1);
  returns.fetch_add(1);
}

MEASURED void f_other() {
  others.fetch_add(1);
}

// Three frames: what ends it, ends all of them.
MEASURED uint64_t f_inside(int levels, Do what) {
  f_work(true);
  if (levels > 0) {
    f_inside(levels - 1, what);
  } else if (what == Do::wait_for_cancel) {
    wait();
  } else if (what == Do::count_for_ever) {
    there = true;
    while (true) asm volatile("");
  } else if (what == Do::leave) {
    pthread_exit(nullptr);
  } else if (what == Do::swap) {
    swapcontext(&other_context, &main_context);
  } else if (what == Do::interrupt) {
    raise(SIGUSR1);
  }
  f_work(true);
  return work;
}

// As f_work, from which a stack is left: what is measured is on both.
MEASURED void f_between() {
  f_work(false);
  swapcontext(&other_context, &main_context);
  f_work(false);
}

MEASURED int f_traced(int levels) {
  if (levels > 0) return f_traced(levels - 1) + 1;
  void* found[32];
  int count = backtrace(found, 32);
  trace.clear();
  for (int i = 0; i < count; ++i)
    trace += (i ? "," : "") + std::to_string(reinterpret_cast<uintptr_t>(found[i]));
  return count;
}

MEASURED int f_hold() {
  if (holding)
    wait();
  else
    f_work(false);
  return 1;
}
MEASURED int f_middle() {
  return f_hold() + 1;
}
MEASURED int f_outer() {
  return f_middle() + 1;
}

namespace {

constexpr size_t kStackSize = 1 << 18;

char* high_memory;  // in main's frame: above every other thread's stack

void use_alternate_stack(void* memory) {
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kStackSize;
  if (memory == MAP_FAILED || sigaltstack(&stack, nullptr) != 0) abort();
}

void on_fast_timer(int) {
  f_inside(1, Do::nothing);
}
void on_slow_timer(int) {
  f_other();
}
void on_interrupt(int) {
  try {
    throw 1;
  } catch (int) {
  }
}

void install(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

timer_t start_timer(int signal, long nanoseconds) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer{};
  itimerspec every{{0, nanoseconds}, {0, nanoseconds}};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &every, nullptr) != 0)
    abort();
  return timer;
}

void storm(unsigned long milliseconds) {
  timer_t fast = start_timer(SIGRTMIN, 100'000), slow = start_timer(SIGRTMIN + 1, 333'333);
  timespec now{}, end{};
  clock_gettime(CLOCK_MONOTONIC, &end);
  for (uint64_t until = milliseconds; until-- > 0;) {
    end.tv_nsec += 1'000'000;
    if (end.tv_nsec >= 1'000'000'000) end.tv_nsec -= 1'000'000'000, ++end.tv_sec;
  }
  do {
    for (int i = 0; i < 100; ++i) f_work(false);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
  timer_delete(fast);
  timer_delete(slow);
}

// On a stack of its own, until it ends; `go` resumes it.
void on_other_stack(void (*code)()) {
  static std::vector<char> stack(kStackSize);
  getcontext(&other_context);
  other_context.uc_stack.ss_sp = stack.data();
  other_context.uc_stack.ss_size = stack.size();
  other_context.uc_link = &main_context;
  makecontext(&other_context, code, 0);
  swapcontext(&main_context, &other_context);
}
void resume() {
  swapcontext(&main_context, &other_context);
}

void in_a_thread(Do what, bool asynchronous) {
  there = false;
  std::thread thread([&] {
    if (asynchronous) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    f_inside(2, what);
  });
  if (what != Do::leave) {
    while (!there) usleep(100);
    pthread_cancel(thread.native_handle());
  }
  thread.join();
  std::thread([] { f_work(false); }).join();  // it may well have the ended one's stack and thread pointer
}

void once(const std::string& word) {
  if (word == "switch") {
    on_other_stack(f_between);
    f_work(false);
    resume();
  } else if (word == "resume") {
    on_other_stack([] { f_inside(0, Do::swap); });
    resume();
    f_work(false);
  } else if (word == "cancel") {
    in_a_thread(Do::wait_for_cancel, false);
  } else if (word == "async") {
    in_a_thread(Do::count_for_ever, true);
  } else if (word == "leave") {
    in_a_thread(Do::leave, false);
  } else if (word == "catch") {
    f_inside(0, Do::interrupt);
    f_work(false);
  } else if (word == "above") {
    std::thread([] {
      use_alternate_stack(high_memory);
      f_inside(0, Do::interrupt);
      f_work(false);
    }).join();
  } else if (word == "trace") {
    f_traced(3);
  }
}

std::string truth() {
  return protocol::field("work", work) + "," + protocol::field("returns", returns) + "," +
         protocol::field("inside", inside) + "," + protocol::field("others", others) + ",\"trace\":[" +
         trace + "]";
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  if (pipe(pipe_ends) != 0) return 1;
  char memory[kStackSize];
  high_memory = memory;
  use_alternate_stack(mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  install(SIGRTMIN, on_fast_timer, SA_ONSTACK);
  install(SIGRTMIN + 1, on_slow_timer, 0);
  install(SIGUSR1, on_interrupt, SA_ONSTACK);
  std::thread holder;
  protocol::say_event("ready", truth());
  for (protocol::Command command = protocol::next_command(); !command.word.empty() && command.word != "quit";
       command = protocol::next_command()) {
    if (command.word == "storm") {
      storm(command.number);
    } else if (command.word == "hold") {
      there = false;
      holding = true;
      holder = std::thread([] { f_outer(); });
      while (!there) usleep(1000);
      usleep(20000);  // from the store to the system call
    } else if (command.word == "release") {
      if (write(pipe_ends[1], "r", 1) != 1) return 1;
      holder.join();
      holding = false;
    } else if (command.word == "chain") {
      for (unsigned long i = 0; i < command.number; ++i) f_outer();
    } else {
      for (unsigned long i = 0; i < command.number; ++i) once(command.word);
    }
    protocol::say_event("done", truth());
  }
  return 0;
}
