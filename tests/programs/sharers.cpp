// Threads that never rest, and processes that run in this one's memory without being threads.
//
//   sharers [SECONDS]
//
// Commands: `threads N` starts N threads that call t_work until they are told to stop, `clones N`
// as many processes (8 at most) made by clone(CLONE_VM), each on a stack of its own, that call
// t_shared; both answer {"event":"running"}. `stop` ends all of them and answers {"event":"done",
// "work":..,"shared":..,"wrong":..,"died":..}: calls so far, results that were wrong, and how many
// of the processes ended otherwise than by themselves. `quit` ends with status 0.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "protocol.h"

namespace {
std::atomic<uint64_t> work, wrong;
std::atomic<bool> stopping;
constexpr unsigned long kClones = 8;
struct alignas(64) Count {  // one each: a clone is to spend its time in calls, not waiting for the others
  uint64_t calls = 0;
} counts[kClones];
alignas(16) char clone_stacks[kClones][1 << 16];
}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  work.fetch_add(1);
  asm volatile("" : "+r"(x));
  return x * 3;
}

extern "C" uint64_t t_shared(uint64_t x);
// Most of its time passes behind the first byte of where a patch of five would lie: one that is
// written while somebody runs here is executed from its middle.
asm(R"(
  .text
  .p2align 4
  .globl t_shared
  .type t_shared, @function
t_shared:
  .cfi_startproc
  push %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  pause
  pause
  lea (%rdi,%rdi,4), %rax
  pop %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  ret
  .cfi_endproc
  .size t_shared, . - t_shared
  .p2align 4
)");

namespace {

// Uses the parent's thread block, so nothing of the C library but system calls.
int run_clone(void* count) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test may kill the parent
  for (uint64_t i = 0; !stopping; ++i, ++static_cast<Count*>(count)->calls)
    if (t_shared(i) != i * 5) wrong.fetch_add(1);
  _exit(0);
}

unsigned ended_badly(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status != 0;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  std::vector<std::thread> threads;
  std::vector<pid_t> clones;
  unsigned died = 0;
  for (protocol::Command command = protocol::next_command();; command = protocol::next_command()) {
    if (command.word == "threads") {
      for (unsigned long i = 0; i < command.number; ++i)
        threads.emplace_back([] {
          for (uint64_t k = 0; !stopping; ++k)
            if (t_work(k) != k * 3) wrong.fetch_add(1);
        });
      protocol::say_event("running");
    } else if (command.word == "clones") {
      for (unsigned long i = 0; i < command.number && clones.size() < kClones; ++i) {
        size_t at = clones.size();
        clones.push_back(
            clone(run_clone, clone_stacks[at] + sizeof clone_stacks[at], CLONE_VM | SIGCHLD, &counts[at]));
        if (clones.back() < 0) return 1;
      }
      protocol::say_event("running");
    } else {
      stopping = true;
      for (std::thread& thread : threads) thread.join();
      for (pid_t child : clones) died += ended_badly(child);
      uint64_t shared = 0;
      for (const Count& count : counts) shared += count.calls;
      threads.clear();
      clones.clear();
      if (command.word != "stop") return 0;
      protocol::say_event("done", protocol::field("work", work) + "," + protocol::field("shared", shared) +
                                      "," + protocol::field("wrong", wrong) + "," +
                                      protocol::field("died", died));
      stopping = false;
    }
  }
}
