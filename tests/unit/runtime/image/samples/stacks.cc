// Stops at a known place: `descend` N deep, or inside of a signal handler that interrupted it,
// on the same or on another stack. Built to be walked by the tests.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

static volatile int sink;

extern "C" __attribute__((noinline, visibility("default"))) void bottom() {
  raise(SIGSTOP);
  sink = getppid();  // the first call: through the dynamic linker's resolver, where that is lazy
}

extern "C" __attribute__((noinline, visibility("default"))) void on_signal(int) {
  bottom();
  sink = 2;
}

extern "C" __attribute__((noinline, visibility("default"))) int descend(int n, bool by_signal) {
  char room[64];
  room[n % 64] = static_cast<char>(n);
  sink = room[n % 64];
  if (n == 1) {
    if (by_signal)
      raise(SIGUSR1);
    else
      bottom();
    return sink;
  }
  return descend(n - 1, by_signal) + sink + room[n % 64];
}

int main(int argc, char** argv) {
  int depth = argc > 1 ? atoi(argv[1]) : 1;
  bool by_signal = argc > 2;
  if (by_signal) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    if (strcmp(argv[2], "alternate") == 0) {
      stack_t stack;
      memset(&stack, 0, sizeof stack);
      stack.ss_size = 65536;
      stack.ss_sp = malloc(stack.ss_size);
      sigaltstack(&stack, nullptr);
      action.sa_flags = SA_ONSTACK;
    }
    sigaction(SIGUSR1, &action, nullptr);
  }
  sink = descend(depth, by_signal);
  return 0;
}
