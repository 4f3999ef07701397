// A function of six arguments that keeps the sums of what metrics read from it.
//
//   arguments [SECONDS]
//
// Commands: `go N` calls t_six N times with small positive and negative numbers; answers {"event":
// "done",...} with totals since the start: calls, thirds of the first argument (each division
// rounds towards zero), the third argument, the result, thirds of the result. `quit` ends.
#include <unistd.h>

#include "protocol.h"

namespace {
long calls, first_thirds, third, result, result_thirds;
std::string signed_field(const char* name, long value) {
  return std::string(",\"") + name + "\":" + std::to_string(value);
}
}  // namespace

extern "C" __attribute__((noinline, used)) long t_six(long a, long b, long c, long d, long e, long f) {
  long sum = (a ^ b) + c * d - e + f;
  ++calls;
  first_thirds += a / 3;
  third += c;
  result += sum;
  result_thirds += sum / 3;
  asm volatile("" : "+r"(sum));
  return sum;
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  uint64_t state = 1;
  auto number = [&state] {  // the constants of Knuth's MMIX
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<long>(state >> 33) % 101 - 50;
  };
  for (protocol::Command command = protocol::next_command(); command.word == "go";
       command = protocol::next_command()) {
    for (unsigned long i = 0; i < command.number; ++i) {
      long values[6];
      for (long& value : values) value = number();
      t_six(values[0], values[1], values[2], values[3], values[4], values[5]);
    }
    protocol::say_event("done", protocol::field("calls", static_cast<unsigned long>(calls)) +
                                    signed_field("first_thirds", first_thirds) +
                                    signed_field("third", third) + signed_field("result", result) +
                                    signed_field("result_thirds", result_thirds));
  }
  return 0;
}
