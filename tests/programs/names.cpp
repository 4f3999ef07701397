// Names of C++: overloads, a template, a local class, an alias.
//
//   names [SECONDS]
//
// Commands: `work N` calls each function of the table N times; `quit` ends with status 0. Answers
// {"event":"done","calls":TOTAL}, TOTAL the calls of each.
#include <cstdint>

#include "protocol.h"

namespace shapes {

template <typename T>
struct Box {
  __attribute__((noinline, used)) uint64_t area(T x) const {
    asm volatile("" : "+r"(x));
    return static_cast<uint64_t>(x) * 2 + 1;
  }
};

__attribute__((noinline, used)) uint64_t area(int x) {
  asm volatile("" : "+r"(x));
  return static_cast<uint64_t>(x) * 3 + 1;
}

__attribute__((noinline, used)) uint64_t area(unsigned long x, char y) {
  asm volatile("" : "+r"(x));
  return x * 5 + static_cast<uint64_t>(y);
}

}  // namespace shapes

// Two names for one function.
extern "C" __attribute__((noinline, used)) uint64_t t_first_name(uint64_t x) noexcept {
  asm volatile("" : "+r"(x));
  return x * 7 + 3;
}
extern "C" uint64_t t_second_name(uint64_t) noexcept __attribute__((alias("t_first_name")));

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  unsigned long calls = 0;
  uint64_t sum = 0;
  protocol::say_event("ready");
  while (true) {
    protocol::Command command = protocol::next_command();
    if (command.word != "work") return sum == 1 ? 1 : 0;
    for (unsigned long i = 0; i < command.number; ++i, ++calls) {
      sum += shapes::area(static_cast<int>(i)) + shapes::area(i, 'x') + t_first_name(i);
      sum += shapes::Box<long>().area(static_cast<long>(i));
    }
    protocol::say_event("done", protocol::field("calls", calls));
  }
}
