// A program with functions of its own that are called as some of the C library's are, and do something else: their
// argument is a number.
//
//   own_names [SECONDS]    ends by itself after SECONDS (default 120), should its test die
//
//   go N      t_outer, N times, which calls each of them and t_leaf. Answers {"event":"done"}
//   quit      ends with status 7; so does the end of the input
#include <unistd.h>

#include <cstdlib>

#include "protocol.h"

#define FUNCTION extern "C" __attribute__((noinline, noclone))

namespace {
volatile long sum;
}  // namespace

FUNCTION void t_leaf(long value) {
  sum = sum + value;
}

// The compiler knows them by other names.
#define OWN(name)                                      \
  FUNCTION void own_##name(long value) __asm__(#name); \
  FUNCTION void own_##name(long value) {               \
    sum = sum * 3 + value;                             \
  }
OWN(longjmp)
OWN(_longjmp)
OWN(siglongjmp)
OWN(_Exit)
OWN(prctl)
OWN(syscall)
OWN(execve)

FUNCTION void t_outer(long value) {
  own_longjmp(value), own__longjmp(value), own_siglongjmp(value), own__Exit(value);
  own_prctl(22), own_syscall(317), own_execve(value);  // PR_SET_SECCOMP, SYS_seccomp
  t_leaf(value);
  sum = sum + value;
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "go") return 7;
    for (unsigned long i = 0; i < command.number; ++i) t_outer(static_cast<long>(i));
    protocol::say_event("done");
  }
}
