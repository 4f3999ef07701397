// Hits with keys, and for each key the truth of how often t_key ran with it and what it added up to.
//
//   keyed [SECONDS]
//
// Answers carry {"pid":..,"counts":{"KEY":N,..},"sums":{"KEY":N,..},"results":{"RESULT":N,..}}, since the
// program's start: of t_key(key, amount, levels) by `key`, its `amount` by `key`, and what t_result returned.
//
//   go N       eight threads, N times each: recursion with other keys inside
//   throw N    the same; every third time an exception leaves the calls
//   raise N    likewise with a signal, sent to the thread itself, whose handler comes to t_key as well
//   storm N    two threads come to t_key all the time while N signals are sent to each from outside
//   one N      eight threads, N times each, all with one key
//   short N    N threads, one after the other, one call each
//   many N     N different keys, one after the other
//   fork N     a child goes N times and answers itself, with what it has counted; the parent answers then
//   named N    t_called N times from t_from_a, 2 N from t_from_b and 3 N from there by a function of its own;
//              t_at N times with the address of t_first, 2 N with that of t_pairs' third word; t_file N times with
//              descriptor 40 + i % 3, which are /dev/null, /dev/zero and none
//   quit       ends with status 0
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol.h"
#include "totals.h"

#define COUNTED extern "C" __attribute__((noipa, used))

namespace {

enum class Leave { normally, by_throw, by_signal };

std::mutex mutex;
Totals all_counts, all_sums, all_results;

// A signal handler comes to t_key in the middle of anything: its calls are noted in places of their own.
constexpr long kHandlerKeys = 8;
struct Counter {
  Random random;
  Leave leave = Leave::normally;
  Totals counts, sums, results;
  std::atomic<long> handled[kHandlerKeys] = {};
  bool in_handler = false;

  void flush() {
    std::lock_guard lock(mutex);
    move_to(all_counts, counts), move_to(all_sums, sums), move_to(all_results, results);
    for (long key = 0; key < kHandlerKeys; ++key) {
      const long times = handled[key].exchange(0);
      if (times == 0) continue;
      all_counts[key] += times;
      all_sums[key] += times * (key + 100);
    }
  }
};
thread_local Counter counter;

long some_key() {
  constexpr long kLarge[] = {INT64_MIN, INT64_MAX, -1, 1L << 40, -(1L << 33), 4096 * 4096, 0x7fffffff};
  if (counter.random.next(4) == 0) return kLarge[counter.random.next(std::size(kLarge))];
  return static_cast<long>(counter.random.next(300));
}

}  // namespace

COUNTED void t_key(long key, long amount, int levels) {
  if (counter.in_handler) {
    counter.handled[key]++;
    return;
  }
  counter.counts[key]++;
  counter.sums[key] += amount;
  if (levels > 0) {
    t_key(some_key(), static_cast<long>(counter.random.next(2000)) - 1000, levels - 1);
  } else if (counter.leave == Leave::by_throw) {
    throw 1;
  } else if (counter.leave == Leave::by_signal) {
    counter.leave = Leave::normally;
    raise(SIGUSR1);
  }
  asm volatile("" ::: "memory");
}

COUNTED int t_result(long key) {
  const int result = static_cast<int>(key % 17) - 8;
  counter.results[result]++;
  asm volatile("" ::: "memory");
  return result;
}

long t_first, t_pairs[4];

COUNTED void t_called() {
  static long times;
  for (long i = 0; i < 3; ++i) times += i;
  asm volatile("" ::"r"(times) : "memory");
}

COUNTED void t_inner() {
  t_called();
  asm volatile("" ::: "memory");
}

COUNTED void t_from_a() {
  t_called();
  asm volatile("" ::: "memory");
}

COUNTED void t_from_b(int inner) {
  t_called();
  asm volatile("" ::: "memory");
  t_called();
  for (int i = 0; i < inner; ++i) t_inner();
}

COUNTED void t_at(const long* address) {
  asm volatile("nop; nop; nop" ::"r"(address) : "memory");
}

COUNTED void t_file(long descriptor) {
  asm volatile("nop; nop; nop" ::"r"(descriptor) : "memory");
}

namespace {

void named(unsigned long rounds) {
  dup2(open("/dev/null", O_RDONLY), 40);
  dup2(open("/dev/zero", O_RDONLY), 41);
  for (unsigned long i = 0; i < rounds; ++i) {
    t_from_a();
    t_from_b(3);
    t_at(&t_first);
    t_at(&t_pairs[2]), t_at(&t_pairs[2]);
    t_file(static_cast<long>(40 + i % 3) | 7L << 32);  // an int, in a register whose upper half is anything
  }
}

void on_raise(int) {
  static thread_local unsigned times = 0;
  const long key = times++ % kHandlerKeys;
  counter.in_handler = true;
  t_key(key, key + 100, 0);
  counter.in_handler = false;
}

void outer() {
  try {
    t_key(some_key(), static_cast<long>(counter.random.next(1000)), 4);
  } catch (int) {
  }
  t_result(static_cast<long>(counter.random.next(1000)));
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

void go(unsigned long rounds, Leave how, uint64_t threads = 8) {
  in_threads(threads, [=] {
    for (unsigned long i = 0; i < rounds; ++i) {
      counter.leave = i % 3 == 2 ? how : Leave::normally;
      outer();
    }
  });
}

// The truth of a thread's own calls is one number, so that nothing is done between them.
void storm(unsigned long signals) {
  under_signals(signals, [](const std::atomic<bool>& ends) {
    while (!ends) t_key(1000, 3, 0);
    counter.flush();
  });
}

void answer(const char* event) {
  counter.flush();
  protocol::say_event(event, protocol::field("pid", static_cast<unsigned long long>(getpid())) +
                                 ",\"counts\":" + object(all_counts) + ",\"sums\":" + object(all_sums) +
                                 ",\"results\":" + object(all_results));
}

void in_child(unsigned long rounds) {
  counter.flush();
  const pid_t child = fork();
  if (child != 0) {
    waitpid(child, nullptr, 0);
    return;
  }
  all_counts.clear(), all_sums.clear(), all_results.clear();
  go(rounds, Leave::normally, 2);
  answer("child");
  exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  struct sigaction action {};
  action.sa_handler = on_raise;
  sigaction(SIGUSR1, &action, nullptr);
  answer("ready");
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      go(command.number, Leave::normally);
    } else if (command.word == "throw") {
      go(command.number, Leave::by_throw);
    } else if (command.word == "raise") {
      go(command.number, Leave::by_signal);
    } else if (command.word == "storm") {
      storm(command.number);
    } else if (command.word == "one") {
      in_threads(8, [n = command.number] {
        for (unsigned long i = 0; i < n; ++i) t_key(7, 1, 0);
      });
    } else if (command.word == "short") {
      for (unsigned long i = 0; i < command.number; ++i) in_threads(1, [] { t_key(some_key(), 1, 0); });
    } else if (command.word == "many") {
      for (unsigned long i = 0; i < command.number; ++i) t_key(static_cast<long>(i * 7919), 1, 0);
    } else if (command.word == "named") {
      named(command.number);
    } else if (command.word == "fork") {
      in_child(command.number);
    } else {
      break;
    }
    answer("done");
  }
  return 0;
}
