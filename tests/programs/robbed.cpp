// What thief.cpp wants to take over: a program that is made set-user-ID for root by the test. It makes system
// calls for a while and ends; `began` and `ended` in its working directory count how often. Nothing calls
// spoil(), which makes a file `stolen` there, whatever the registers and the stack are.
#include <fcntl.h>
#include <unistd.h>

asm(R"(
  .text
  .p2align 4
  .globl spoil
  .type spoil, @function
spoil:
  mov $2, %eax                # open
  lea stolen(%rip), %rdi
  mov $0101, %esi             # O_WRONLY | O_CREAT
  mov $0600, %edx
  syscall
  mov $231, %eax              # exit_group
  xor %edi, %edi
  syscall
  .size spoil, . - spoil
  .section .rodata
stolen:
  .string "stolen"
  .text
)");

static void count(const char* name) {
  const int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0 || write(file, "1", 1) != 1) _exit(1);
  close(file);
}

int main() {
  count("began");
  for (int i = 0; i < 2000; ++i) getppid();
  count("ended");
}
