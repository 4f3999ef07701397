// A program that goes on after faults by exceptions: its handler of SIGSEGV and SIGFPE throws. It is built with
// -fnon-call-exceptions; Ada and D programs do so without being asked.
//
//   faults [SECONDS]     ends by itself after SECONDS (default 120), should its test die
//
//   work N    N rounds; in every second one each function faults. Answers {"event":"done","rounds":...,"caught":...},
//             the sums since the start
//   quit      ends with status 7; so does the end of the input
#include <signal.h>
#include <unistd.h>

#include <cstdint>

#include "protocol.h"

#define FUNCTION extern "C" __attribute__((noinline, noclone))

namespace {

struct Fault {};

void throw_fault(int) {
  throw Fault();
}

struct Pair {
  int first, second;
};

volatile unsigned long caught, rounds;
volatile int sum;

}  // namespace

// The first instructions of each fault, and more are wanted for a jump.
FUNCTION int t_load(const Pair* pair) {
  return pair->second + 1;
}
FUNCTION void t_store(Pair* pair, int value) {
  pair->first = value;
}
FUNCTION int t_divide(int a, int b) {
  return a / b;
}
FUNCTION int t_call(int (*const* table)(int, int), int a) {
  return table[1](a, 1) + 1;
}
// None of its first instructions faults.
FUNCTION int t_plain(int a, int b) {
  return (a ^ b) * 77 + (a & 15);
}

namespace {

template <typename Body>
void guarded(Body body) {
  try {
    body();
  } catch (const Fault&) {
    caught = caught + 1;
  }
}

void run_round(bool faults) {
  Pair pair{1, 2};
  Pair* place = faults ? nullptr : &pair;
  int (*const table[])(int, int) = {t_plain, t_divide};
  guarded([&] { sum = sum + t_load(place); });
  guarded([&] { t_store(place, 5); });
  guarded([&] { sum = sum + t_divide(77, faults ? 0 : 7); });
  guarded([&] { sum = sum + t_call(faults ? nullptr : table, 9); });
  guarded([&] { sum = sum + place->first; });  // here the place that the exception comes from is no call
  sum = t_plain(sum, 3);
  rounds = rounds + 1;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  struct sigaction action = {};
  action.sa_handler = throw_fault;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGFPE, &action, nullptr);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return 7;
    for (unsigned long i = 0; i < command.number; ++i) run_round(i % 2 == 1);
    protocol::say_event("done", protocol::field("rounds", rounds) + "," + protocol::field("caught", caught));
  }
}
