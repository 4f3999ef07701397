// What BOLT leaves behind where it does not follow the addresses of labels: the function's old copy, which no symbol
// names, runs as well.
//
//   rewritten SECONDS
//
// Commands: `work N` calls t_old, whose name means its new copy, N times, and its old copy as often. Answers
// {"event":"done","sum":ALL CALLS}. `quit` ends.
#include <unistd.h>

#include <cstdint>

#include "protocol.h"

extern "C" {

__attribute__((visibility("hidden"))) uint64_t old_calls = 0;

void t_old();
extern void (*volatile old_copy)();
asm(R"(
  .section .bolt.org.text, "ax"
  .p2align 4
.Lold:
  incq old_calls(%rip)
  nopl 8(%rax)
  ret
  .text
  .p2align 4
  .globl t_old
  .type t_old, @function
t_old:
  .cfi_startproc
  incq old_calls(%rip)
  nopl 8(%rax)
  ret
  .cfi_endproc
  .size t_old, . - t_old
  .data
  .p2align 3
  .globl old_copy
  .type old_copy, @object
  .size old_copy, 8
old_copy:
  .quad .Lold
  .text
)");

}  // extern "C"

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return 0;
    for (unsigned long i = 0; i < command.number; i++) {
      t_old();
      old_copy();
    }
    protocol::say_event("done", protocol::field("sum", old_calls));
  }
}
