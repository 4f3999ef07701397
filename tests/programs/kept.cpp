// Calls whose results belong to their arguments: for each key, the truth of how often t_keep returned and what it
// returned, whatever its argument registers held by then.
//
//   kept [SECONDS]
//
// Answers carry, since the program's start, {"counts":{"KEY":N,..},"sums":{"KEY":N,..}} of the returns of
// t_keep(key, amount, levels), which returns what is `results` of these two; and of t_narrow(descriptor, asked), which
// returns an int, -1 for each third, "failures":{"DESCRIPTOR":N,..}.
//
//   go N       eight threads, N times each: recursion with other keys inside
//   throw N    the same; every third time an exception leaves the calls
//   jump N     likewise by longjmp
//   raise N    likewise with a signal, sent to the thread itself, whose handler comes to t_keep as well
//   storm N    two threads come to t_keep all the time while N signals are sent to each from outside
//   deeper N   t_keep calls itself N times at once
//   quit       ends with status 0
// From the start on, a thread is in t_waits, and returns from it with the first command.
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol.h"
#include "totals.h"

#define KEPT extern "C" __attribute__((noipa, used))

namespace {

enum class Leave { normally, by_throw, by_jump, by_signal };

std::mutex mutex;
Totals all_counts, all_sums, all_failures;
volatile bool first_command = false;

long result_of(long key, long amount) {
  return amount * 3 - key % 7;
}

// A signal handler comes to t_keep in the middle of anything: its calls are noted in places of their own.
constexpr long kHandlerKeys = 8;
struct Counter {
  Random random;
  Leave leave = Leave::normally;
  Totals counts, sums, failures;
  std::atomic<long> handled[kHandlerKeys] = {};
  bool in_handler = false;
  jmp_buf back;

  void flush() {
    std::lock_guard lock(mutex);
    move_to(all_counts, counts), move_to(all_sums, sums), move_to(all_failures, failures);
    for (long key = 0; key < kHandlerKeys; ++key) {
      const long times = handled[key].exchange(0);
      if (times == 0) continue;
      all_counts[key] += times;
      all_sums[key] += times * result_of(key, key + 100);
    }
  }
};
thread_local Counter counter;

long some_key() {
  return counter.random.next(8) == 0 ? INT64_MIN + static_cast<long>(counter.random.next(3))
                                     : static_cast<long>(counter.random.next(100));
}
long some_amount() {
  return static_cast<long>(counter.random.next(2000)) - 1000;
}

// Nothing of the arguments is left in their registers.
void forget() {
  asm volatile("mov $-77, %%rdi; mov %%rdi, %%rsi; mov %%rdi, %%rdx" ::: "rdi", "rsi", "rdx", "memory");
}

}  // namespace

KEPT long t_keep(long key, long amount, int levels) {
  if (levels > 0) {
    t_keep(some_key(), some_amount(), levels - 1);
  } else if (counter.leave == Leave::by_throw) {
    throw 1;
  } else if (counter.leave == Leave::by_jump) {
    longjmp(counter.back, 1);
  } else if (counter.leave == Leave::by_signal) {
    counter.leave = Leave::normally;
    raise(SIGUSR1);
  }
  if (counter.in_handler) {
    counter.handled[key]++;
  } else {
    counter.counts[key]++;
    counter.sums[key] += result_of(key, amount);
  }
  forget();
  return result_of(key, amount);
}

KEPT int t_narrow(int descriptor, unsigned char asked) {
  const bool fails = asked % 3 == 0;
  if (fails) counter.failures[descriptor]++;
  forget();
  return fails ? -1 : asked;
}

KEPT long t_waits(long key) {
  while (!first_command) usleep(1000);
  forget();
  return key + 1;
}

namespace {

void on_raise(int) {
  static thread_local unsigned times = 0;
  const long key = times++ % kHandlerKeys;
  counter.in_handler = true;
  t_keep(key, key + 100, 0);
  counter.in_handler = false;
}

__attribute__((noinline)) void outer() {
  if (setjmp(counter.back) != 0) return;
  try {
    t_keep(some_key(), some_amount(), 4);
  } catch (int) {
  }
}

__attribute__((noinline)) void narrow(long i) {
  // An int and a byte, in registers whose upper parts are anything.
  const auto call = reinterpret_cast<long (*)(long, long)>(reinterpret_cast<void*>(t_narrow));
  call((i % 5) | 7L << 32, (i % 256) | 0x1234500L);
}

template <typename Work>
void in_threads(uint64_t number, Work work) {
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= number; ++seed)
    threads.emplace_back([=] {
      counter.random.state = seed;
      work();
      counter.flush();
    });
  for (std::thread& thread : threads) thread.join();
}

void go(unsigned long rounds, Leave how) {
  in_threads(8, [=] {
    for (unsigned long i = 0; i < rounds; ++i) {
      counter.leave = i % 3 == 2 ? how : Leave::normally;
      outer();
      narrow(static_cast<long>(i));
    }
  });
}

// The truth of a thread's own calls is one number, so that nothing is done between them.
void storm(unsigned long signals) {
  under_signals(signals, [](const std::atomic<bool>& ends) {
    counter.counts[1000] = counter.sums[1000] = 0;  // nothing is allocated when a signal comes
    while (!ends) t_keep(1000, 3, 0);
    counter.flush();
  });
}

void answer(const char* event) {
  counter.flush();
  protocol::say_event(event, "\"counts\":" + object(all_counts) + ",\"sums\":" + object(all_sums) +
                                 ",\"failures\":" + object(all_failures));
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  struct sigaction action {};
  action.sa_handler = on_raise;
  sigaction(SIGUSR1, &action, nullptr);
  std::thread waits(t_waits, 5);
  answer("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    first_command = true;
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
    } else if (command.word == "deeper") {
      in_threads(1, [n = command.number] { t_keep(some_key(), some_amount(), static_cast<int>(n)); });
    } else {
      break;
    }
    answer("done");
  }
  waits.join();
  return 0;
}
