// Calls within a program and its library (objects_more.cpp), in both directions, to be told apart by object.
//
//   objects [SECONDS]
//
// Commands: `go N` has three threads make N rounds each, of o_outer(kOuter) and o_apart(kApart). Both call the
// library's m_work, which calls its own m_inner twice, that calls itself once, and the program's o_back. The first argument of
// all of them is that of the round, no other function's is such a number, and nothing else runs in o_outer. Most of its
// time passes in m_inner. Answers carry "rounds", of all threads, and "outer_ns", how long its calls of o_outer took.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "protocol.h"

#define KEEP extern "C" __attribute__((noipa, used))

using Back = long (*)(long, long);
extern "C" long m_work(long what, Back back);

namespace {

constexpr long kOuter = 77'000'001, kApart = 77'000'002;
std::atomic<unsigned long> rounds, outer_ns;

}  // namespace

KEEP long o_back(long what, long amount) {
  asm volatile("" : "+r"(what), "+r"(amount));
  return what + amount;
}

KEEP long o_outer(long what) {
  long done = m_work(what, o_back);
  asm volatile("" : "+r"(done));
  return done;
}

KEEP long o_apart(long what) {
  long done = m_work(what, o_back);
  asm volatile("" : "+r"(done));
  return done + 1;
}

namespace {

void go(unsigned long number) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([number] {
      using Clock = std::chrono::steady_clock;
      for (unsigned long k = 0; k < number; ++k) {
        const Clock::time_point before = Clock::now();
        o_outer(kOuter);
        outer_ns += static_cast<unsigned long>(std::chrono::nanoseconds(Clock::now() - before).count());
        o_apart(kApart);
        ++rounds;
      }
    });
  for (std::thread& thread : threads) thread.join();
}

void answer(const char* event) {
  protocol::say_event(event, protocol::field("rounds", rounds) + "," + protocol::field("outer_ns", outer_ns));
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  m_work(0, o_back);  // what is bound lazily is bound
  answer("ready");
  for (protocol::Command command = protocol::next_command(); command.word == "go";
       command = protocol::next_command()) {
    go(command.number);
    answer("done");
  }
  return 0;
}
