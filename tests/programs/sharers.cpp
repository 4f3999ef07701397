// Threads that never rest, and a process that runs in this one's memory without being a thread.
//
//   sharers [SECONDS]
//
// Commands: `threads N` starts N threads that call t_work until they are told to stop, `clone` a
// process made by clone(CLONE_VM) on a stack of its own that calls t_shared, and answers {"event":
// "running","child":PID} (0 for threads); `stop` ends all of them and answers {"event":"done",
// "work":..,"shared":..,"wrong":..,"status":..}: calls so far, results that were wrong, and the
// wait status of the last clone. `quit` ends with status 0.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "protocol.h"

namespace {
std::atomic<uint64_t> work, shared, wrong;
std::atomic<bool> stopping;
alignas(16) char clone_stack[1 << 16];
}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  work.fetch_add(1);
  asm volatile("" : "+r"(x));
  return x * 3;
}

extern "C" __attribute__((noinline, used)) uint64_t t_shared(uint64_t x) {
  shared.fetch_add(1);
  asm volatile("" : "+r"(x));
  return x * 5;
}

namespace {

// Uses the parent's thread block, so nothing of the C library but _exit.
int run_clone(void*) {
  for (uint64_t i = 0; !stopping; ++i)
    if (t_shared(i) != i * 5) wrong.fetch_add(1);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  std::vector<std::thread> threads;
  pid_t child = 0;
  int status = 0;
  for (protocol::Command command = protocol::next_command();; command = protocol::next_command()) {
    if (command.word == "threads") {
      for (unsigned long i = 0; i < command.number; ++i)
        threads.emplace_back([] {
          for (uint64_t k = 0; !stopping; ++k)
            if (t_work(k) != k * 3) wrong.fetch_add(1);
        });
      protocol::say_event("running", protocol::field("child", 0));
    } else if (command.word == "clone") {
      child = clone(run_clone, clone_stack + sizeof clone_stack, CLONE_VM | SIGCHLD, nullptr);
      if (child < 0) return 1;
      protocol::say_event("running", protocol::field("child", static_cast<unsigned>(child)));
    } else {
      stopping = true;
      for (std::thread& thread : threads) thread.join();
      threads.clear();
      while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      child = 0;
      if (command.word != "stop") return 0;
      protocol::say_event("done", protocol::field("work", work) + "," + protocol::field("shared", shared) +
                                      "," + protocol::field("wrong", wrong) + "," +
                                      protocol::field("status", static_cast<unsigned>(status)));
      stopping = false;
    }
  }
}
