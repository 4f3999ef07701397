// A stopped thread's registers. Shared code passes them on; the target's folder knows which word is which.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/image/unwind.h"

namespace mdl::arch {

// The general registers as PTRACE_GETREGSET gives them for NT_PRSTATUS: words in the order of the machine.
struct ThreadRegisters {
  std::array<uint64_t, 40> words{};
  size_t size = 0;  // in bytes, as the kernel has filled it in
};

// False where the kernel has filled in those of another mode: the thread runs 32-bit code.
bool are_whole(const ThreadRegisters&);
uint64_t pc(const ThreadRegisters&);
void set_pc(ThreadRegisters&, uint64_t);
uint64_t stack_pointer(const ThreadRegisters&);
void set_stack_pointer(ThreadRegisters&, uint64_t);
uint64_t thread_pointer(const ThreadRegisters&);
image::RegisterFile unwind_registers(const ThreadRegisters&);

// The system call that the thread was stopped in, or -1. When the stop interrupted a call
// that the kernel would now fail with EINTR although no signal asked for it (epoll_wait,
// semop, sigtimedwait, io_getevents, sockets with a time-out: signal(7), "Interruption of
// system calls by stop signals"), makes the kernel restart it and returns true.
long system_call(const ThreadRegisters&);
bool hide_interruption(ThreadRegisters&);
// The stop interrupted a wait in a system call, which the kernel goes on with when the thread is let go.
bool interrupted_wait(const ThreadRegisters&);

}  // namespace mdl::arch
