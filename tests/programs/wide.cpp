// 1,024 small functions, and one that calls each of them twice: far more calls than a function has on average.
//
//   go N      calls it N times
#include "protocol.h"

#define FOUR(m, n) m(n##0) m(n##1) m(n##2) m(n##3)
#define SIXTEEN(m, n) FOUR(m, n##0) FOUR(m, n##1) FOUR(m, n##2) FOUR(m, n##3)
#define SIXTY_FOUR(m, n) SIXTEEN(m, n##0) SIXTEEN(m, n##1) SIXTEEN(m, n##2) SIXTEEN(m, n##3)
#define SOME(m, n) SIXTY_FOUR(m, n##0) SIXTY_FOUR(m, n##1) SIXTY_FOUR(m, n##2) SIXTY_FOUR(m, n##3)
#define ALL(m) SOME(m, 0) SOME(m, 1) SOME(m, 2) SOME(m, 3)

#define SMALL(n)                                        \
  extern "C" [[gnu::noinline]] long w_##n(long value) { \
    asm volatile("" : "+r"(value));                     \
    return value * 31 + 1##n;                           \
  }
#define CALL(n) value = w_##n(w_##n(value));

ALL(SMALL)

extern "C" [[gnu::noinline]] long w_whole(long value) {
  ALL(CALL)
  return value;
}

int main() {
  protocol::say_event("ready");
  for (protocol::Command command = protocol::next_command(); !command.word.empty();
       command = protocol::next_command()) {
    long value = 0;
    for (unsigned long i = 0; i < command.number; ++i) value = w_whole(value);
    protocol::say_event("done", protocol::field("value", static_cast<unsigned long>(value)));
  }
}
