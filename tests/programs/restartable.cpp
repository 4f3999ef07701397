// Counts per processor in restartable sequences (rseq(2)), as tcmalloc and librseq do: a sequence ends with the write
// that makes it count, and a thread that is interrupted before that begins again, by the kernel. Where that write is
// executed anywhere else, counts of two threads on one processor get lost.
//
//   restartable SECONDS
//
// Commands: `work N` lets each of eight threads call t_add N times, and t_plain as often. Answers
// {"event":"done","sum":ALL CALLS OF t_add THAT COUNTED}. `quit` ends.
#include <sys/rseq.h>
#include <unistd.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "protocol.h"

namespace {

struct alignas(64) Count {
  uint64_t value;
};
Count counts[1024];

}  // namespace

// t_add(counts, area of the thread): counts[area->cpu_id].value++. The last two instructions are shorter than a jump, so the slow one before them
// would go with them.
extern "C" void t_add(Count* counts, struct rseq* area);
asm(R"(
  .pushsection __rseq_cs, "aw"
  .balign 32
t_add_sequence:
  .long 0, 0
  .quad .Lbegin, .Lend - .Lbegin, .Labort
  .popsection
  .text
  .p2align 4
  .globl t_add
  .type t_add, @function
t_add:
  .cfi_startproc
  mov %rdi, %r8
.Lagain:
  lea t_add_sequence(%rip), %rax
  mov %rax, 8(%rsi)
.Lbegin:
  mov %r8, %rdi
  mov 4(%rsi), %ecx
  shl $6, %rcx
  add %rcx, %rdi
  mov (%rdi), %rax
  inc %rax
  xor %edx, %edx
  mov $1, %r9d
  div %r9
  mov %rax, (%rdi)
.Lend:
  ret
  .cfi_endproc
  .size t_add, . - t_add
  .pushsection __rseq_failure, "ax"
  .byte 0x0f, 0xb9, 0x3d  # as librseq does: with the signature, ud1 0x53053053(%rip), %edi
  .long 0x53053053
.Labort:
  jmp .Lagain
  .popsection
)");

extern "C" __attribute__((noinline)) uint64_t t_plain(uint64_t x) {
  asm volatile("" : "+r"(x));
  return x + 1;
}

namespace {

struct rseq* own_area() {
  return reinterpret_cast<struct rseq*>(reinterpret_cast<char*>(__builtin_thread_pointer()) + __rseq_offset);
}

void work(uint64_t times) {
  for (uint64_t i = 0; i < times; i++) {
    t_add(counts, own_area());
    t_plain(i);
  }
}

}  // namespace

int main(int argc, char** argv) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 60);
  if (__rseq_size == 0) return 77;  // the C library was told not to register any
  protocol::say_event("ready");
  for (;;) {
    const protocol::Command command = protocol::next_command();
    if (command.word != "work") return 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) threads.emplace_back(work, command.number);
    for (std::thread& thread : threads) thread.join();
    uint64_t sum = 0;
    for (const Count& count : counts) sum += count.value;
    protocol::say_event("done", protocol::field("sum", sum));
  }
}
