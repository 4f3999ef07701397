// Code that the loader writes: absolute addresses in it (text relocations, -z notext), as objects have that were not
// compiled to be position independent. So it is not that of the file.
//
//   relocated SECONDS
//
// Commands: `work N` calls t_relocated N times, and t_plain as often. Answers {"event":"done","sum":ALL CALLS OF
// t_relocated}. `quit` ends.
#include <unistd.h>

#include <cstdint>

#include "protocol.h"

extern "C" {

__attribute__((visibility("hidden"))) uint64_t relocated_calls = 0;

// The address is in its first instruction, where a jump of ours would be.
void t_relocated();
asm(R"(
  .text
  .p2align 4
  .globl t_relocated
  .type t_relocated, @function
t_relocated:
  .cfi_startproc
  movabs $relocated_calls, %rax
  incq (%rax)
  ret
  .cfi_endproc
  .size t_relocated, . - t_relocated
)");

__attribute__((noinline)) uint64_t t_plain(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

}  // extern "C"

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return 0;
    for (unsigned long i = 0; i < command.number; i++) {
      t_relocated();
      t_plain(i);
    }
    protocol::say_event("done", protocol::field("sum", relocated_calls));
  }
}
