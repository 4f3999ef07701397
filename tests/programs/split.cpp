// A program with split stacks (-fsplit-stack): t_deep goes on on another stack wherever there is too little of it.
//
//   split [SECONDS]      ends by itself after SECONDS (default 120), should its test die
//
//   work N    t_deep, 3,000 deep, N times. Answers {"event":"done","calls":...}, the sum since the start
//   quit      ends with status 7; so does the end of the input
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "protocol.h"

namespace {
volatile unsigned long calls;
}

extern "C" __attribute__((noinline, noclone)) long t_deep(int depth) {
  char room[512];
  memset(room, depth, sizeof room);
  asm volatile("" ::"r"(room) : "memory");
  calls = calls + 1;
  return depth == 0 ? room[5] : t_deep(depth - 1) + room[100];
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  long sum = 0;
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return sum == 1 ? 0 : 7;
    for (unsigned long i = 0; i < command.number; ++i) sum += t_deep(2999) + 1;
    protocol::say_event("done", protocol::field("calls", calls));
  }
}
