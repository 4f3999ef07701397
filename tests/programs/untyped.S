// A program of assembly whose labels have no type, and that has no call frame information: what nasm makes of
// `global f`. It says that it is ready, and waits for a signal.
  .globl _start, f
  .text
f:
  lea 1(%rdi), %rax
  ret
_start:
  call f
  mov $1, %edi
  lea ready(%rip), %rsi
  mov $end - ready, %edx
  mov $1, %eax  // write
  syscall
1:
  mov $34, %eax  // pause
  syscall
  jmp 1b

  .section .rodata
ready:
  .ascii "{\"event\":\"ready\"}\n"
end:
  .section .note.GNU-stack, "", @progbits
