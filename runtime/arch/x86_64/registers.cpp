// A stopped thread's registers on x86-64 Linux.
//
// Restarting: when a stop interrupts a system call, rax holds the kernel's restart code
// (-512 ERESTARTSYS, -513 ERESTARTNOINTR, -514 ERESTARTNOHAND, -516 ERESTART_RESTARTBLOCK;
// include/linux/errno.h) and orig_rax the call's number; when the thread goes on without
// a signal the kernel winds back to the `syscall` instruction by itself.
#include <asm/unistd_64.h>
#include <sys/user.h>

#include <algorithm>
#include <cerrno>

#include "runtime/arch/x86_64/thread_words.h"

namespace mdl::arch {
namespace {

constexpr int64_t kRestartNoHandler = -514;

// Calls that fail with EINTR after a stop (signal(7)): the first two rows always, the rest
// where a socket has a time-out or the file is an inotify descriptor.
constexpr long kInterruptible[] = {
    __NR_epoll_wait,
    __NR_epoll_pwait,
    441 /* epoll_pwait2 */,
    __NR_semop,
    __NR_semtimedop,
    __NR_rt_sigtimedwait,
    __NR_io_getevents,
    333 /* io_pgetevents */,
    426 /* io_uring_enter */,
    __NR_read,
    __NR_readv,
    __NR_write,
    __NR_writev,
    __NR_recvfrom,
    __NR_recvmsg,
    __NR_recvmmsg,
    __NR_sendto,
    __NR_sendmsg,
    __NR_sendmmsg,
    __NR_accept,
    __NR_accept4,
    __NR_connect,
};

}  // namespace

uint64_t pc(const ThreadRegisters& regs) {
  return regs.words[word_rip];
}
void set_pc(ThreadRegisters& regs, uint64_t address) {
  regs.words[word_rip] = address;
}
uint64_t stack_pointer(const ThreadRegisters& regs) {
  return regs.words[word_rsp];
}
void set_stack_pointer(ThreadRegisters& regs, uint64_t address) {
  regs.words[word_rsp] = address;
}
uint64_t thread_pointer(const ThreadRegisters& regs) {
  return regs.words[word_fs_base];
}

image::RegisterFile unwind_registers(const ThreadRegisters& regs) {
  constexpr Word kOrder[] = {word_rax, word_rdx, word_rcx, word_rbx, word_rsi, word_rdi,
                             word_rbp, word_rsp, word_r8,  word_r9,  word_r10, word_r11,
                             word_r12, word_r13, word_r14, word_r15, word_rip};
  image::RegisterFile out{};
  for (size_t i = 0; i < std::size(kOrder); ++i) out[i] = regs.words[kOrder[i]];
  return out;
}

bool are_whole(const ThreadRegisters& regs) {
  return regs.size == sizeof(user_regs_struct);
}

long system_call(const ThreadRegisters& regs) {
  auto number = static_cast<int64_t>(regs.words[word_orig_rax]);
  return number >= 0 && number < 0x10000 ? static_cast<long>(number) : -1;
}

bool hide_interruption(ThreadRegisters& regs) {
  long number = system_call(regs);
  if (number < 0 || static_cast<int64_t>(regs.words[word_rax]) != -EINTR) return false;
  if (std::find(std::begin(kInterruptible), std::end(kInterruptible), number) == std::end(kInterruptible))
    return false;
  regs.words[word_rax] = static_cast<uint64_t>(kRestartNoHandler);
  return true;
}

bool interrupted_wait(const ThreadRegisters& regs) {
  constexpr int64_t kRestarts[] = {-512, -513, -514,
                                   -516};  // linux/errno.h: ERESTARTSYS to ERESTART_RESTARTBLOCK
  return system_call(regs) >= 0 &&
         std::find(std::begin(kRestarts), std::end(kRestarts), static_cast<int64_t>(regs.words[word_rax])) !=
             std::end(kRestarts);
}

}  // namespace mdl::arch
