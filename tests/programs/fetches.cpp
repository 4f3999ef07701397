// Reads memory that may not be there, and goes on where a handler of SIGSEGV sends it, which compares where the signal
// has come with addresses in the midst of a function: as HotSpot's SafeFetch, the system calls of qemu-user and those of
// musl that are cancellation points do. Where that instruction is executed anywhere else, the handler does not know it.
//
//   fetches SECONDS
//
// Commands: `work N` calls t_fetch N times, for a place without memory each second time, and t_plain as often. Answers
// {"event":"done","sum":OF WHAT WAS READ, 7 FOR WHAT WAS NOT}. `quit` ends; a fault that is not known ends it by 3.
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "protocol.h"

extern "C" uint64_t t_fetch(const uint64_t* place, uint64_t otherwise);
extern "C" const char t_fetch_fault[], t_fetch_otherwise[];
asm(R"(
  .text
  .p2align 4
  .globl t_fetch
  .type t_fetch, @function
t_fetch:
  .cfi_startproc
t_fetch_fault:
  mov (%rdi), %rax
  test %rax, %rax
  ret
t_fetch_otherwise:
  mov %rsi, %rax
  ret
  .cfi_endproc
  .size t_fetch, . - t_fetch
)");

extern "C" __attribute__((noinline)) uint64_t t_plain(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

namespace {

void take_fault(int, siginfo_t*, void* context) {
  greg_t& at = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const auto is = [&](const char* place) { return at == reinterpret_cast<greg_t>(place); };
  if (!is(t_fetch_fault)) _exit(3);
  at = reinterpret_cast<greg_t>(t_fetch_otherwise);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  struct sigaction action {};
  action.sa_sigaction = take_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return 0;
    uint64_t sum = 0;
    const uint64_t one = 1;
    for (uint64_t i = 0; i < command.number; i++) {
      sum += t_fetch(i % 2 ? nullptr : &one, 7);
      t_plain(i);
    }
    protocol::say_event("done", protocol::field("sum", sum));
  }
}
