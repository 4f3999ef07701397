// Exceptions that pass a function which cleans up: its destructor runs when the functions below have been left, and before
// anything is caught.
//
//   landings [SECONDS]
//
// Commands: `go N` N times: l_cleans, whose l_left throws every other time (protocol.h). Answers with "inside", the calls
// of l_step that l_left makes; l_step is called as often by the destructor, and where the exception is caught.
#include "protocol.h"

namespace {

unsigned long inside;
volatile int sum;

}  // namespace

extern "C" {
#define WORK [[gnu::noinline, gnu::used]]
WORK int l_step(int value) {
  sum = sum + value;
  return sum * 3;
}
WORK int l_left(bool throws) {
  ++inside;
  const int result = l_step(1);
  if (throws) throw result;
  return result + sum;
}
struct Cleans {
  ~Cleans() { l_step(2); }
};
WORK int l_cleans(bool throws) {
  const Cleans cleans;
  return l_left(throws) + sum;
}
}

int main(int argc, char** argv) {
  const auto round = [](unsigned long i) {
    try {
      l_cleans(i % 2 == 0);
      l_step(4);
    } catch (int) {
      l_step(3);
    }
  };
  return protocol::go(argc, argv, round, [] { return protocol::field("inside", inside); });
}
