// A program that leaves functions as run-time systems do that throw with an unwinder of their own, and says that it has
// caught by the function that code of a language calls there. The functions here have only these names.
//
//   catches [SECONDS]    ends by itself after SECONDS (default 120), should its test die
//
//   NAME N    N rounds: t_left calls t_leaf and is left, or returns in every second one; the catching frame calls NAME,
//             and then t_leaf. Answers {"event":"done"}
//   quit      ends with status 7; so does the end of the input
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "protocol.h"

#define FUNCTION extern "C" __attribute__((noinline, noclone))

namespace {
void* place[5];
volatile int sum;
}  // namespace

FUNCTION int t_leaf(int value) {
  sum = sum + value;
  return sum * 3;
}
FUNCTION void t_throw() {
  __builtin_longjmp(place, 1);
}
FUNCTION int t_left(int value) {
  const int result = t_leaf(value) + 1;
  if (value % 2 == 1) t_throw();
  return result + sum;
}

FUNCTION void __gnat_begin_handler_v1(int value) {
  sum = sum + value + 1;
}
FUNCTION void __gdc_begin_catch(int value) {
  sum = sum + value + 2;
}
FUNCTION void _d_eh_enter_catch(int value) {
  sum = sum + value + 3;
}
FUNCTION void objc_begin_catch(int value) {
  sum = sum + value + 4;
}
// As Rust 1.95 names it. In a program with link-time optimization it is all that is left of what catch_unwind calls.
FUNCTION void rust_panic_cleanup(int value) __asm__("_RNvCsfLfy6EI15iL_7___rustc20___rust_panic_cleanup");
FUNCTION void rust_panic_cleanup(int value) {
  sum = sum + value + 5;
}

namespace {

struct Catch {
  const char* name;
  void (*function)(int);
};
constexpr Catch kCatches[] = {{"__gnat_begin_handler_v1", __gnat_begin_handler_v1},
                              {"__gdc_begin_catch", __gdc_begin_catch},
                              {"_d_eh_enter_catch", _d_eh_enter_catch},
                              {"objc_begin_catch", objc_begin_catch},
                              {"__rust_panic_cleanup", rust_panic_cleanup}};

__attribute__((noinline)) void run_round(int value, void (*caught)(int)) {
  if (__builtin_setjmp(place) == 0)
    sum = sum + t_left(value);
  else
    caught(value);
  t_leaf(value);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    void (*caught)(int) = nullptr;
    for (const Catch& one : kCatches)
      if (command.word == one.name) caught = one.function;
    if (!caught) return 7;
    for (unsigned long i = 0; i < command.number; ++i) run_round(static_cast<int>(i), caught);
    protocol::say_event("done");
  }
}
