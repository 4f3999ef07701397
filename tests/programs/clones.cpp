// Functions by the names that a compiler gives to those that it makes of others: a copy for constant arguments, a part
// that it has cut out, one of which no original is left, one that stands for two with the same code. They do what the
// names say, and are made without an optimizer, so that they are here whatever the compiler finds worthwhile.
#include <atomic>

#include "protocol.h"

extern "C" {
long t_original(long value);
long t_copy(long value) __asm__("t_original.constprop.0.isra.0");
long t_part(long value) __asm__("t_original.part.0");
long t_alone(long value) __asm__("t_lonely_one.isra.0");
long t_lonely_two(long value);
}

namespace {
std::atomic<long> sum;
}

extern "C" {
#define WORK [[gnu::noinline, gnu::used]] long
WORK t_part(long value) {
  return sum = sum + value;
}
WORK t_original(long value) {
  return sum = sum + (value % 2 ? t_part(value) : value);
}
WORK t_copy(long value) {
  return sum = sum - value;
}
WORK t_alone(long value) {
  return sum = sum + 1 + value;
}
WORK t_lonely_two(long value) {
  return sum = sum + 2 + value;
}
WORK t_first(long value) {
  return sum = sum + 3 + value;
}
[[gnu::alias("t_first"), gnu::copy(t_first)]] long t_second(long value);
[[gnu::alias("t_first"), gnu::copy(t_first)]] long __t_first64(long value);
}

int main(int argc, char** argv) {
  const auto round = [](unsigned long i) {
    t_original(static_cast<long>(i));
    for (int k = 0; k < 3; k++) t_copy(static_cast<long>(i)), t_alone(1), t_lonely_two(k);
    t_first(1), t_second(2), __t_first64(3);
  };
  return protocol::go(argc, argv, round, [] { return std::string(); });
}
