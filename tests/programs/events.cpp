// A program that knows how often each of its calls, loops and blocks was passed.
//
//   events [SECONDS]      ends by itself after SECONDS (default 120), should its test die
//
//   go N      three threads do N rounds each (events_functions.cpp), while signals reach them, some of them on
//             an alternate stack; answers {"event":"done", ...} when the threads have ended
//   start     the threads do rounds until told to pause; answers {"event":"running"}
//   pause     answers {"event":"done", ...} when they have ended
//   quit      ends with status 7; so does the end of the input
//
// Between an answer and the next command nothing that is counted runs.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "events.h"
#include "protocol.h"

namespace {

constexpr int kThreads = 3;
constexpr uint64_t kSeeds = 8;
constexpr uint64_t kEndless = ~uint64_t{0};

struct Name {
  const char* name;
  const char* known;
  const char* refusable;
};
constexpr Name kNames[] = {
#define X(name, known, refusable) {#name, known, refusable},
#include "events.def"
#undef X
};

std::array<uint64_t, kSeeds> expected;
std::atomic<uint64_t> wrong, rounds_done, signals;
std::atomic<bool> pause_now, signals_come;
std::atomic<int> busy;

struct AlternateStack {
  static constexpr size_t kSize = 1 << 16;
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  AlternateStack() {
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = kSize;
    if (memory == MAP_FAILED || sigaltstack(&stack, nullptr) != 0) abort();
  }
  ~AlternateStack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    munmap(memory, kSize);
  }
};

void work(uint64_t rounds, uint64_t first) {
  AlternateStack stack;
  while (!signals_come) sched_yield();  // a thousand rounds may be over before the sender has a processor
  for (uint64_t i = 0; rounds == kEndless ? !pause_now.load() : i < rounds; ++i) {
    uint64_t seed = (first + i) % kSeeds;
    if (run_events(seed) != expected[seed]) wrong.fetch_add(1);
    rounds_done.fetch_add(1);
  }
  sigset_t all;  // a handler that began has ended, and none begins any more
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  busy.fetch_sub(1);
}

// Threads that do rounds, with signals sent to them until they have ended.
class Crew {
 public:
  explicit Crew(uint64_t rounds) {
    pause_now = signals_come = false;
    busy = kThreads;
    for (uint64_t i = 0; i < kThreads; ++i) threads_.emplace_back(work, rounds, i * 3);
    sender_ = std::thread([this] {
      for (int turn = 0; busy > 0; ++turn) {
        for (std::thread& thread : threads_)
          pthread_kill(thread.native_handle(), turn % 2 ? SIGUSR1 : SIGUSR2), signals.fetch_add(1);
        signals_come = true;
        usleep(150);
      }
    });
  }
  ~Crew() {
    pause_now = true;
    sender_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  void finish() { sender_.join(), sender_ = std::thread([] {}); }

 private:
  std::vector<std::thread> threads_;
  std::thread sender_;
};

void install_handlers() {
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = e_handler;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  action.sa_handler = e_handler_alternate;
  sigaction(SIGUSR2, &action, nullptr);
}

std::string snapshot() {
  std::string results, functions;
  for (uint64_t result : expected) results += std::to_string(result) + ",";
  for (int i = 0; i < kEventFunctions; ++i) {
    const Events& e = events[i];
    functions.append(i ? ",\"" : "\"").append(kNames[i].name).append("\":{\"known\":\"").append(kNames[i].known);
    functions.append("\",\"refusable\":\"").append(kNames[i].refusable).append("\"");
    for (auto [name, value] : {std::pair{"before", e.before.load()}, {"after", e.after.load()},
                               {"enter", e.enter.load()}, {"exit", e.exit.load()}, {"start", e.start.load()},
                               {"end", e.end.load()}, {"blocks", e.blocks.load()}})
      functions.append(",").append(protocol::field(name, value));
    functions.append("}");
  }
  results.pop_back();
  return protocol::field("rounds", rounds_done) + "," + protocol::field("wrong", wrong) + "," +
         protocol::field("signals", signals) + ",\"results\":[" + results + "],\"functions\":{" + functions + "}";
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  install_handlers();
  for (uint64_t seed = 0; seed < kSeeds; ++seed) expected[seed] = run_events(seed);
  protocol::say_event("ready", snapshot());
  std::unique_ptr<Crew> running;
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "go") {
      Crew(command.number).finish();
      protocol::say_event("done", snapshot());
    } else if (command.word == "start") {
      running = std::make_unique<Crew>(kEndless);
      protocol::say_event("running");
    } else if (command.word == "pause") {
      running.reset();
      protocol::say_event("done", snapshot());
    } else {
      break;
    }
  }
  running.reset();
  return 7;
}
