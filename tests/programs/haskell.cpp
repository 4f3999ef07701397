// What GHC makes of Haskell, in small: pandoc is such a program. A stack of its own in %rbp, no calls and no
// returns, and continuations in the middle of functions that only addresses on this stack lead to, with data
// before them.
//
//   haskell [SECONDS]    ends by itself after SECONDS (default 120)
//
//   work N    N calls of t_c_work, each of which runs both functions of Haskell's kind once; answers
//   {"event":"done","sum":S} quit      ends with status 7
#include <cstdint>

#include "protocol.h"

extern "C" uint64_t t_run_haskell(uint64_t value);

// t_outer_info puts its continuation on the stack and enters t_inner_info, which returns there. The data are
// an info table, as GHC writes it before each code that may be entered: decoded as code, they take the
// continuation's first bytes along. stg_upd_frame_info is a name of GHC's run-time system, by which its
// programs are known.
__asm__(R"(
  .pushsection .text
  .globl stg_upd_frame_info, t_outer_info, t_inner_info, t_run_haskell
  .type stg_upd_frame_info, @object
  .type t_outer_info, @function
  .type t_inner_info, @function
  .type t_run_haskell, @function
  .balign 8
stg_upd_frame_info:
  .quad 0
  .balign 16
t_outer_info:
  lea -16(%rbp), %rax
  movq $1f, -16(%rbp)
  mov %rbx, -8(%rbp)
  add $-16, %rbp
  jmp t_inner_info
  .balign 8
  .quad 1
  .long 32, 0
1: inc %rbx
  lea 16(%rbp), %rbp
  jmp *(%rbp)
  .size t_outer_info, .-t_outer_info
  .balign 8
  .quad 2
t_inner_info:
  lea 3(%rbx,%rbx), %rbx
  jmp *(%rbp)
  .size t_inner_info, .-t_inner_info
t_run_haskell:
  .cfi_startproc
  push %rbp
  .cfi_adjust_cfa_offset 8
  push %rbx
  .cfi_adjust_cfa_offset 8
  sub $4096, %rsp
  .cfi_adjust_cfa_offset 4096
  lea 4000(%rsp), %rbp
  movq $2f, (%rbp)
  mov %rdi, %rbx
  lea t_outer_info(%rip), %rax
  jmp *%rax
2: mov %rbx, %rax
  add $4096, %rsp
  .cfi_adjust_cfa_offset -4096
  pop %rbx
  .cfi_adjust_cfa_offset -8
  pop %rbp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size t_run_haskell, .-t_run_haskell
  .popsection
)");

extern "C" __attribute__((noinline)) uint64_t t_c_work(uint64_t value) {
  return t_run_haskell(value) + 1;
}

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  protocol::say_event("ready");
  while (true) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return 7;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < command.number; i++) sum += t_c_work(i);
    protocol::say_event("done", protocol::field("sum", sum));
  }
}
