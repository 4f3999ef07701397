// A program with what catching a panic of Rust comes to: the exception's class is compared. With -DTAKEN_IN a function
// that catches does so itself, as link-time optimization leaves it; else only those that Rust has for it, by name.
//
//   rust_catch [SECONDS]   ends by itself after SECONDS (default 120), should its test die
//
//   go N    calls t_work N times. Answers {"event":"done"}
//   quit    ends with status 7; so does the end of the input
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "protocol.h"

#define FUNCTION extern "C" __attribute__((noinline, noclone))

namespace {
constexpr uint64_t kRustClass = 0x54535552005a4f4d;  // "MOZ\0RUST"
volatile uint64_t thrown = kRustClass + 1;
volatile int sum;
}  // namespace

FUNCTION bool start_panic() __asm__("_RNvCsfLfy6EI15iL_7___rustc18___rust_start_panic");
FUNCTION bool start_panic() {
  return thrown == kRustClass;
}
FUNCTION bool panic_cleanup() __asm__("_RNvCsfLfy6EI15iL_7___rustc20___rust_panic_cleanup");
FUNCTION bool panic_cleanup() {
  return thrown != kRustClass;
}
FUNCTION int t_work(int value) {
  sum = sum + value;
  return sum * 3;
}

#ifdef TAKEN_IN
FUNCTION int t_catches(int value) {
  return thrown == kRustClass ? 0 : t_work(value);
}
#else
FUNCTION int t_catches(int value) {
  return panic_cleanup() && !start_panic() ? t_work(value) : 0;
}
#endif

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "go") return 7;
    for (unsigned long i = 0; i < command.number; ++i) t_catches(static_cast<int>(i));
    protocol::say_event("done");
  }
}
