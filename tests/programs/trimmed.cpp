// Functions from which an optimizer may leave out what nobody uses, and sums of what they were given and returned.
//
//   trimmed [SECONDS]
//
// Commands: `go N` calls each of them N times; answers {"event":"done",...} with totals since the start. `quit` ends.
//
// t_ignored   returns an int that no caller uses
// t_used      returns an int that one of two callers uses
// t_handed    returns an int that its only caller returns, and whose callers use it
// t_shifted   is given the same first argument by all callers, which leaves that out; the second one moves
// t_typed     is given an int, and can be called from elsewhere
// camlTrimmed__add_12   is called as functions of OCaml are
// t_pointed   returns an int that no caller uses, but something has its address
#include <unistd.h>

#include "protocol.h"

#define OWN static __attribute__((noinline))

namespace {
volatile int zero;
volatile long sink;
long ignored, used, handed, shifted, typed, pointed;
}  // namespace

extern "C" {
// Leaves something in the register for results that is nobody's.
OWN long t_scramble() {
  long value = 0x1234567890 + zero;
  asm volatile("" : "+r"(value)::"memory");
  return value;
}
OWN int t_ignored(int a) {
  const int result = a * 3 - zero;
  ignored += result;
  sink = t_scramble();
  return result;
}
OWN int t_used(int a) {
  const int result = a * 5 - zero;
  used += result;
  sink = t_scramble();
  return result;
}
OWN int t_handed(int a) {
  const int result = a * 7 - zero;
  handed += result;
  sink = t_scramble();
  return result;
}
OWN int t_hands_on(int a) {
  sink = t_scramble();
  return t_handed(a + zero);
}
OWN void t_shifted(long same, int a, long b) {
  shifted += a;
  sink = same + b;
}
__attribute__((noinline, used)) void t_typed(int a) {
  typed += a;
  sink = t_scramble();
}
__attribute__((noinline, used)) long camlTrimmed__add_12(long a) {
  const long result = t_scramble();
  sink = a;
  return result;
}
OWN int t_pointed(int a) {
  const int result = a * 11 - zero;
  pointed += result;
  sink = t_scramble();
  return result;
}
}
int (*volatile pointer)(int) = t_pointed;

int main(int argc, char** argv) {
  const auto round = [](unsigned long i) {
    const int number = static_cast<int>(i % 101) - 50 + zero;
    t_ignored(number);
    t_used(number);
    sink = t_used(number + 1);
    sink = t_hands_on(number);
    t_shifted(3, number, 5 + zero);
    t_shifted(3, number - 7, 6 + zero);
    t_typed(number);
    camlTrimmed__add_12(number);
    t_pointed(number);
    pointer(number);
  };
  const auto totals = [] {
    std::string totals;
    for (const auto& [name, total] :
         {std::pair("t_ignored", ignored), std::pair("t_used", used), std::pair("t_handed", handed),
          std::pair("t_shifted", shifted), std::pair("t_typed", typed), std::pair("t_pointed", pointed)})
      totals += std::string(totals.empty() ? "\"" : ",\"") + name + "\":" + std::to_string(total);
    return totals;
  };
  return protocol::go(argc, argv, round, totals);
}
