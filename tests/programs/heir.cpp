// Whatever comes in the place of a process that mdl-inject has looked at: the program that the process executes, which the test
// makes set-user-ID for root, or another process that gets its id. It notices when anybody changes something in it.
//
// {"event":"began"} is the first that it says. It ends when its standard input has something or is closed, with {"event":
// "ended","harm":WHAT}: "" when its registers were those that the kernel gives a new program and then its own, and its code,
// its data and its signal mask were what they were. Nothing calls spoil(), which says {"event":"stolen"} whatever the
// registers and the stack are.
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "protocol.h"
#include "steady.h"

asm(R"(
  .text
  .globl spoil
  .type spoil, @function
  .p2align 4
spoil:
  mov $1, %eax                # write
  mov $1, %edi
  lea stolen(%rip), %rsi
  mov $19, %edx
  syscall
  mov $231, %eax              # exit_group
  xor %edi, %edi
  syscall
  .size spoil, . - spoil

  .globl begin                # the entry of the program
begin:
  mov %rax, first(%rip)
  mov %rbx, first+8(%rip)
  mov %rcx, first+16(%rip)
  mov %rdx, first+24(%rip)
  mov %rsi, first+32(%rip)
  mov %rdi, first+40(%rip)
  mov %rbp, first+48(%rip)
  mov %r8, first+56(%rip)
  mov %r9, first+64(%rip)
  mov %r10, first+72(%rip)
  mov %r11, first+80(%rip)
  mov %r12, first+88(%rip)
  mov %r13, first+96(%rip)
  mov %r14, first+104(%rip)
  mov %r15, first+112(%rip)
  jmp _start

  .section .rodata
stolen:
  .string "{\"event\":\"stolen\"}\n"
  .text
)");

constexpr size_t kRegisters = 15;
extern "C" {
uint64_t first[kRegisters] = {~0ul};
}

namespace {

constexpr size_t kData = 1 << 16;
unsigned char data[kData];

unsigned char byte_at(size_t at) {
  return static_cast<unsigned char>(at * 7 + at / 256);
}

// Its code is what its file holds.
bool is_code_whole() {
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(getauxval(AT_PHDR));
  const int file = open("/proc/self/exe", O_RDONLY);
  bool whole = file >= 0;
  for (size_t i = 0; whole && i < getauxval(AT_PHNUM); ++i) {
    const Elf64_Phdr& one = segments[i];
    if (one.p_type != PT_LOAD || one.p_flags & PF_W) continue;
    static char buffer[4096];
    const size_t slack =
        one.p_flags & PF_X ? -(one.p_vaddr + one.p_filesz) & 4095 : 0;  // behind it lies the rest of a page
    for (size_t at = 0; whole && at < one.p_filesz + slack; at += sizeof buffer) {
      const ssize_t got = pread(file, buffer, sizeof buffer, static_cast<off_t>(one.p_offset + at));
      whole = got > 0 && memcmp(reinterpret_cast<void*>(one.p_vaddr + at), buffer,
                                std::min(static_cast<size_t>(got), one.p_filesz + slack - at)) == 0;
    }
  }
  close(file);
  return whole;
}

uint64_t signal_mask() {
  uint64_t out = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, nullptr, &out, sizeof out);
  return out;
}

const char* harm(uint64_t mask) {
  for (uint64_t one : first)
    if (one != 0) return "registers at its entry";
  for (size_t at = 0; at < kData; ++at)
    if (data[at] != byte_at(at)) return "data";
  if (!is_code_whole()) return "code";
  return signal_mask() == mask ? "" : "signal mask";
}

}  // namespace

int main() {
  alarm(60);
  const uint64_t mask = signal_mask();
  for (size_t at = 0; at < kData; ++at) data[at] = byte_at(at);
  protocol::say_event("began", protocol::field("pid", static_cast<unsigned>(getpid())));
  const char* what = "";
  pollfd input{STDIN_FILENO, POLLIN, 0};
  for (int ready = 0; ready == 0 && !*what;) {
    if (steady(200) != 0) what = "registers";
    ready = poll(&input, 1, 1);
    if (ready < 0) what = "a system call";
  }
  if (!*what) what = harm(mask);
  protocol::say_event("ended", std::string("\"harm\":\"") + what + "\"");
  return *what ? 1 : 0;
}
