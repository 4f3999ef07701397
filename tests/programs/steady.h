// A thread that notices when anybody changes its registers.
#pragma once

#include <cstdint>

// Fills the general registers with values of its own, makes a system call and pauses, `turns` times. 0 when each register was
// what it has to be all the time, the stack pointer, too; else 1, or the thread is lost.
extern "C" int steady(uint64_t turns);

asm(R"(
  .text
  .globl steady
  .type steady, @function
steady:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  push %rdi                   # turns, at (%rsp)
  mov %rsp, %r15
  lea 0x11(%r15), %rbx        # each is made of the stack pointer
  lea 0x22(%r15), %rbp
  lea 0x33(%r15), %rdx
  lea 0x44(%r15), %rsi
  lea 0x55(%r15), %rdi
  lea 0x66(%r15), %r8
  lea 0x77(%r15), %r9
  lea 0x88(%r15), %r10
  lea 0x99(%r15), %r12
  lea 0xaa(%r15), %r13
  lea 0xbb(%r15), %r14
1:
  mov $110, %eax              # getppid; rcx and r11 are the kernel's
  syscall
  pause
  pause
  lea -0x11(%rbx), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x22(%rbp), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x33(%rdx), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x44(%rsi), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x55(%rdi), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x66(%r8), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x77(%r9), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x88(%r10), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0x99(%r12), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0xaa(%r13), %rax
  cmp %rax, %rsp
  jne 2f
  lea -0xbb(%r14), %rax
  cmp %rax, %rsp
  jne 2f
  cmp %r15, %rsp
  jne 2f
  decq (%rsp)
  jnz 1b
  xor %eax, %eax
  jmp 3f
2:
  mov $1, %eax
3:
  pop %rdi
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
  .size steady, . - steady
)");
