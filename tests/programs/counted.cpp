// A program that knows how often each of its functions was entered and left.
//
//   counted [SECONDS]      ends by itself after SECONDS (default 120), should its test die
//
// Four threads do rounds (counted_functions.cpp); while they do, a fifth sends them two
// signals whose handlers call counted functions, one of them on an alternate stack.
// The signals are queued ones, so none is lost. Between rounds the threads sleep in a futex. Commands
// (protocol.h):
//
//   go N      every thread does N rounds; answers {"event":"done", ...}
//   start     the threads do rounds until told to pause; answers {"event":"running"}
//   pause     answers {"event":"paused", ...} when all sleep again
//   quit      ends with status 7; so does the end of the input
//
// ready, done and paused carry a snapshot that nothing changes until the next command:
// rounds done, rounds whose result was not the one computed before "ready" (must be 0),
// registers found disturbed (must be 0), signals handled, and the counts of every function.
#include "counted.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol.h"

namespace {

constexpr int kThreads = 4;
constexpr uint64_t kSeeds = 8;               // rounds repeat with this period
constexpr uint64_t kEndless = ~uint64_t{0};  // rounds until `pause`
constexpr uint64_t kNothing = kEndless - 1;  // no round: only answer

struct Name {
  const char* name;
  bool refusable;
};

constexpr Name kNames[] = {
#define X(name, refusable) {#name, refusable != 0},
#include "counted_functions.def"
#undef X
};

// What the threads are told, and what they tell.
struct Work {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t order = 0;   // increases with each command
  uint64_t rounds = 0;  // to do in this order, or kEndless or kNothing
  int busy = 0;         // threads that still work on it
  bool end = false;
  std::atomic<bool> pause{false};
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> wrong{0};
};

Work work;
std::array<uint64_t, kSeeds> expected;
std::array<std::atomic<pthread_t>, kThreads> workers;
std::atomic<bool> storm{false};
uint64_t sent_before = 0;  // signals sent when the storm began
std::atomic<uint64_t> sent_normal;  // signals sent, each of which is handled once
std::atomic<uint64_t> sent_alternate;

void use_alternate_stack() {
  constexpr size_t kSize = 1 << 16;
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kSize;
  if (memory == MAP_FAILED || sigaltstack(&stack, nullptr) != 0) abort();
}

void worker(int number) {
  use_alternate_stack();
  workers[static_cast<size_t>(number)] = pthread_self();
  uint64_t seen = 0;
  uint64_t next_seed = static_cast<uint64_t>(number);
  while (true) {
    uint64_t rounds = 0;
    {
      std::unique_lock lock(work.mutex);
      work.changed.wait(lock, [&] { return work.end || work.order != seen; });
      if (work.end) return;
      seen = work.order;
      rounds = work.rounds;
    }
    if (rounds == kNothing) rounds = 0;
    for (uint64_t i = 0; rounds == kEndless ? !work.pause.load() : i < rounds; ++i) {
      uint64_t seed = next_seed++ % kSeeds;
      if (run_round(seed) != expected[seed]) work.wrong.fetch_add(1);
      work.done.fetch_add(1);
    }
    std::lock_guard lock(work.mutex);
    if (--work.busy == 0) work.changed.notify_all();
  }
}

// Signals only while rounds run: between them nothing may change a count.
void send_signals() {
  int turn = 0;
  while (true) {
    {
      std::unique_lock lock(work.mutex);
      work.changed.wait(lock, [] { return work.end || storm.load(); });
      if (work.end) return;
      for (auto& thread : workers) {
        bool alternate = turn++ % 3 == 0;
        int signal = SIGRTMIN + (alternate ? 1 : 0);
        if (pthread_sigqueue(thread.load(), signal, sigval{}) != 0) continue;  // the queue is full
        (alternate ? sent_alternate : sent_normal).fetch_add(1);
      }
    }
    usleep(100);
  }
}

void install_handlers() {
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = t_handler;
  sigaction(SIGRTMIN, &action, nullptr);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  action.sa_handler = t_handler_alternate;
  sigaction(SIGRTMIN + 1, &action, nullptr);
}

std::string snapshot_fields() {
  std::string results, refusable, counts;
  for (uint64_t result : expected) results += std::to_string(result) + ",";
  for (int i = 0; i < kCountedFunctions; ++i) {
    std::string quoted = std::string("\"").append(kNames[i].name).append("\"");
    if (kNames[i].refusable) refusable += quoted + ",";
    counts +=
        quoted + ":[" + std::to_string(t_truth[i].entries) + "," + std::to_string(t_truth[i].returns) + "],";
  }
  for (std::string* list : {&results, &refusable, &counts}) list->pop_back();
  return protocol::field("rounds", work.done) + "," + protocol::field("wrong", work.wrong) + "," +
         protocol::field("disturbed", disturbed) + "," +
         protocol::field("signals", sent_normal + sent_alternate) + ",\"results\":[" + results +
         "],\"refusable\":[" + refusable + "],\"counts\":{" + counts + "}";
}

void give_order(uint64_t rounds) {
  std::lock_guard lock(work.mutex);
  work.pause = false;
  work.rounds = rounds;
  work.busy = kThreads;
  ++work.order;
  if (rounds != kNothing) sent_before = sent_normal + sent_alternate;
  storm = rounds != kNothing;
  work.changed.notify_all();
}

void wait_until_idle() {
  std::unique_lock lock(work.mutex);
  work.changed.wait(lock, [] { return work.busy == 0; });
}

// After this nothing runs until the next order. Queued signals are delivered once each, so
// first every handler that was asked for has reached its end; then each thread answers an
// empty order, which it cannot do before it has left its handler for good.
void wait_until_asleep() {
  wait_until_idle();
  while (storm && sent_normal + sent_alternate == sent_before) usleep(200);  // every storm has a signal
  storm = false;
  give_order(kNothing);  // also: the sender has seen the end of the storm, or holds no more signals
  wait_until_idle();
  while (t_truth[k_t_handler].returns != sent_normal ||
         t_truth[k_t_handler_alternate].returns != sent_alternate) {
    usleep(500);
  }
  give_order(kNothing);
  wait_until_idle();
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  install_handlers();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) expected[seed] = run_round(seed);

  std::vector<std::thread> threads;
  std::atomic<int> started{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      workers[static_cast<size_t>(i)] = pthread_self();
      started.fetch_add(1);
      worker(i);
    });
  }
  while (started < kThreads) usleep(1000);
  std::thread sender(send_signals);

  protocol::say_event("ready", snapshot_fields());
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      give_order(command.number ? command.number : 1);
      wait_until_asleep();
      protocol::say_event("done", snapshot_fields());
    } else if (command.word == "start") {
      give_order(kEndless);
      protocol::say_event("running");
    } else if (command.word == "pause") {
      work.pause = true;
      wait_until_asleep();
      protocol::say_event("paused", snapshot_fields());
    } else {
      break;
    }
  }
  {
    std::lock_guard lock(work.mutex);
    work.end = true;
    work.changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  sender.join();
  return 7;
}
