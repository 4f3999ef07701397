// Threads that know in which functions they spend their time.
//
//   busy [SECONDS]
//
//   work N   N threads run from now on: of each round of theirs, b_much takes three parts, b_some one, b_little very
//            little, and b_much is called once, b_some twice; answers {"event":"done"}
//   odd N    the same, in b_odd only, which has no room for a jump
//   chain N  the same, in b_chain, which calls b_link twice in each round, b_hidden through a pointer, and getppid
//   rest     they end; answers how often each was called, {"much":..,"some":..,"chain":..,"link":..}
//   leave N  ends by itself in N milliseconds, with status 0
//   execute N  executes itself in N milliseconds
//   quit     ends with status 0
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "protocol.h"

#define BUSY extern "C" __attribute__((noinline, used))

namespace {

constexpr unsigned kPart = 100'000;
std::atomic<bool> ends{false};
std::atomic<uint64_t> much{0}, some{0}, chain{0}, links{0};
std::vector<std::thread> threads;

// In the function itself: nothing is called.
[[gnu::always_inline]] inline void turn(unsigned times) {
  for (unsigned i = 0; i < times; ++i) asm volatile("" : "+r"(i));
}

}  // namespace

BUSY void b_much() {
  turn(6 * kPart);
  asm volatile("");
}
BUSY void b_some() {
  turn(kPart);
  asm volatile("" ::: "memory");
}
BUSY void b_little() {
  turn(kPart / 1000);
  asm volatile("" ::: "memory");
}

BUSY void b_link() {
  turn(kPart / 100);
  asm volatile("" ::: "memory");
}
BUSY void b_hidden() {
  turn(kPart / 100);
  asm volatile("" ::: "memory");
}
void (*volatile hidden)() = b_hidden;
BUSY void b_chain() {
  turn(kPart);
  b_link(), b_link(), links += 2;
  hidden();
  getppid();
  asm volatile("" ::: "memory");
}

// Its loop goes to its first instruction, and there is no room behind it: nothing fits at its entry.
extern "C" void b_odd(unsigned times);
asm(R"(
    .text
    .globl b_odd
    .type b_odd, @function
b_odd:
    dec %edi
    jnz b_odd
    ret
    .size b_odd, . - b_odd
    .globl b_behind
    .type b_behind, @function
b_behind:
    ret
    .size b_behind, . - b_behind
)");

namespace {

void work() {
  while (!ends) {
    b_much(), much++;
    b_some(), b_some(), some += 2;
    b_little();
  }
}

void work_oddly() {
  while (!ends) b_odd(200 * kPart);  // a sample that falls in between is a rarity
}

void work_in_chain() {
  while (!ends) b_chain(), chain++;
}

void rest() {
  ends = true;
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  ends = false;
}

void after(unsigned long ms, void (*what)(char**), char** arguments) {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    what(arguments);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word == "work") {
      for (unsigned long i = 0; i < command.number; ++i) threads.emplace_back(work);
      protocol::say_event("done");
    } else if (command.word == "odd") {
      for (unsigned long i = 0; i < command.number; ++i) threads.emplace_back(work_oddly);
      protocol::say_event("done");
    } else if (command.word == "chain") {
      for (unsigned long i = 0; i < command.number; ++i) threads.emplace_back(work_in_chain);
      protocol::say_event("done");
    } else if (command.word == "rest") {
      rest();
      protocol::say_event("done", protocol::field("much", much) + "," + protocol::field("some", some) + "," +
                                      protocol::field("chain", chain) + "," + protocol::field("link", links));
    } else if (command.word == "leave") {
      after(
          command.number, [](char**) { _exit(0); }, argv);
    } else if (command.word == "execute") {
      after(
          command.number, [](char** own) { execv("/proc/self/exe", own); }, argv);
    } else {
      _exit(0);
    }
  }
}
