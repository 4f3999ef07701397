#include "runtime/arch/signal_frame.h"

#include <array>

#include "runtime/arch/description.h"

namespace mdl::arch {

// `mov $15, %rax; syscall`: rt_sigreturn.
bool is_signal_return(const image::Memory& memory, uint64_t pc) {
  constexpr std::array<uint8_t, 9> kBytes = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
  std::array<uint8_t, 9> bytes;
  return memory.read(pc, std::as_writable_bytes(std::span(bytes))) && bytes == kBytes;
}

// At rsp lies a struct ucontext whose general registers start at 40, in the kernel's order
// (arch/x86/include/uapi/asm/sigcontext.h).
bool restore_signal_context(const image::Memory& memory, image::FrameValues& values) {
  constexpr uint64_t kRegistersAt = 40;
  // r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip as DWARF numbers
  constexpr std::array<size_t, 17> kOrder = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};
  std::array<uint64_t, 17> saved;
  const auto stack = values[kMachine.frames.stack_pointer];
  if (!stack || !memory.read(*stack + kRegistersAt, std::as_writable_bytes(std::span(saved)))) return false;
  for (size_t i = 0; i < kOrder.size(); ++i) values[kOrder[i]] = saved[i];
  return true;
}

}  // namespace mdl::arch
