// A program whose functions have hardly room for a jump (tight_asm.S), and that knows how often it called
// them.
//
//   tight [SECONDS]      ends by itself after SECONDS (default 120), should its test die
//
//   go N      three threads do N rounds each, while signals reach them whose handler does a round, too;
//             answers {"event":"done", ...} when the threads have ended
//   calm N    the same without signals
//   start     the threads do rounds until told to pause; answers {"event":"running"}
//   pause     answers {"event":"done", ...} when they have ended
//   quit      ends with status 7; so does the end of the input
//
// An answer says how many rounds were done, handlers' included: each is one call of each function, which
// returns once. Between an answer and the next command none of them runs.
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "protocol.h"

extern "C" {
using Tight = uint64_t(uint64_t, const uint32_t*);
Tight t_helper, t_call_first, t_pointer_first, t_short_entry, t_punned_entry, t_inner_head, t_loop_entry,
    t_short_return, t_punned_return, t_exact_return, t_turned_return, t_hosted_return, t_hosted_twice,
    t_hosted_apart, t_behind_cold_1, t_behind_cold_3, t_behind_cold_11;
}

namespace {

constexpr int kThreads = 3;
constexpr uint64_t kSeeds = 8;
constexpr uint64_t kEndless = ~uint64_t{0};

constexpr Tight* kFunctions[] = {t_call_first,   t_pointer_first, t_short_entry,   t_punned_entry,
                                 t_inner_head,   t_loop_entry,    t_short_return,  t_punned_return,
                                 t_exact_return, t_turned_return, t_hosted_return, t_hosted_twice,
                                 t_hosted_apart, t_behind_cold_1, t_behind_cold_3, t_behind_cold_11};

std::array<uint64_t, kSeeds> expected;
std::atomic<uint64_t> wrong, rounds_done, signals;
std::atomic<bool> pause_now;
std::atomic<int> busy;

uint64_t run_round(uint64_t seed) {
  const auto number = static_cast<uint32_t>(seed * 77 + 5);
  uint64_t sum = 0;
  for (Tight* function : kFunctions) sum = sum * 31 + function(seed, &number);
  return sum;
}

void checked_round(uint64_t seed) {
  if (run_round(seed) != expected[seed]) wrong.fetch_add(1);
  rounds_done.fetch_add(1);
}

void on_signal(int) {
  checked_round(signals.fetch_add(1) % kSeeds);
}

void work(uint64_t rounds, uint64_t first) {
  for (uint64_t i = 0; rounds == kEndless ? !pause_now.load() : i < rounds; ++i)
    checked_round((first + i) % kSeeds);
  sigset_t all;  // a handler that began has ended, and none begins any more
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  busy.fetch_sub(1);
}

// Threads that do rounds, with signals sent to them until they have ended.
class Crew {
 public:
  explicit Crew(uint64_t rounds, bool disturb = true) {
    pause_now = false;
    busy = kThreads;
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back(work, rounds, static_cast<uint64_t>(i) * 3);
    sender_ = std::thread([this, disturb] {
      while (busy.load() > 0) {
        for (std::thread& thread : threads_)
          if (disturb) pthread_kill(thread.native_handle(), SIGUSR1);
        timespec nap{0, 100'000};
        nanosleep(&nap, nullptr);
      }
    });
  }
  void join() {
    sender_.join();  // before the threads: their handles stay valid
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::vector<std::thread> threads_;
  std::thread sender_;
};

void answer(const char* event) {
  using protocol::field;
  protocol::say_event(event, field("rounds", rounds_done.load()) + "," + field("wrong", wrong.load()) + "," +
                                 field("signals", signals.load()));
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) expected[seed] = run_round(seed);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  answer("ready");
  std::unique_ptr<Crew> crew;
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word == "go" || command.word == "calm") {
      Crew(command.number, command.word == "go").join();
      answer("done");
    } else if (command.word == "start") {
      crew = std::make_unique<Crew>(kEndless);
      protocol::say_event("running");
    } else if (command.word == "pause" && crew) {
      pause_now = true;
      crew->join();
      crew.reset();
      answer("done");
    } else {
      return 7;
    }
  }
}
