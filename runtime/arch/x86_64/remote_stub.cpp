// A remote system call that survives the injector's death at any instruction.
//
// The thread is sent to a stub with one change of registers (pc; orig_rax = -1 so that the
// kernel winds nothing back). The stub saves on the thread's own stack, below the red
// zone, all it uses, makes its calls, restores everything and jumps to where the
// thread was. A thread that was stopped inside a system call goes back to its `syscall`
// instruction with the number of the call, or with restart_syscall (219) where the kernel
// keeps the rest of a time-out in the restart block: mmap and its kind do not touch it.
// So no EINTR is seen, and nothing but the stub itself knows where to go back to.
#include <asm/unistd_64.h>

#include <cstdint>

#include "runtime/arch/arch.h"
#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {
namespace {

constexpr Reg kSaved[] = {rax, rcx, rdx, rbx, rsi, rdi, r8, r9, r10, r11};
constexpr Reg kArgs[] = {rdi, rsi, rdx, r10, r8, r9};  // of a system call

// What must be in rax when the thread is back, and where it is back.
struct Return {
  uint64_t pc;
  uint64_t rax;
};

Return way_back(const ThreadRegisters& regs) {
  long number = system_call(regs);
  auto result = static_cast<int64_t>(regs.rax);
  constexpr uint64_t kSyscallSize = 2;  // 0f 05
  if (number >= 0 && result <= -512 && result >= -514)
    return {regs.rip - kSyscallSize, static_cast<uint64_t>(number)};
  if (number >= 0 && result == -516) return {regs.rip - kSyscallSize, __NR_restart_syscall};
  return {regs.rip, regs.rax};
}

}  // namespace

const RemoteNumbers kCalls = {__NR_memfd_create, __NR_ftruncate, __NR_mmap, __NR_munmap, __NR_close};

Bytes remote_stub(std::span<const RemoteCall> calls, std::string_view text, const ThreadRegisters& registers,
                  uint64_t address) {
  Return back = way_back(registers);
  Bytes out;
  Emitter e(out, address);
  e.jump(address + 5 + text.size());
  for (char c : text) e.bytes({static_cast<uint8_t>(c)});
  uint64_t text_at = address + 5;
  e.bytes({0x48, 0x8d, 0x64, 0x24, 0x80});  // lea -128(%rsp), %rsp: over the red zone
  e.bytes({0x9c});                          // pushfq
  for (Reg r : kSaved) e.push(r);
  e.bytes({0xfc});  // cld
  for (const RemoteCall& call : calls) {
    for (size_t i = 0; i < call.args.size(); i++) {
      uint64_t value = call.args[i];
      if (value == kLastResult) {
        // mov %rbx, reg
        e.bytes({static_cast<uint8_t>(kArgs[i] >= 8 ? 0x49 : 0x48), 0x89,
                 static_cast<uint8_t>(0xc0 | (rbx << 3) | (kArgs[i] & 7))});
      } else {
        if ((value & 0xffffffff00000000u) == kTextTag) value = text_at + (value & 0xffffffffu);
        e.mov_imm(kArgs[i], value);
      }
    }
    e.mov_imm(rax, static_cast<uint64_t>(call.number));
    e.bytes({0x0f, 0x05});                       // syscall
    if (call.keep) e.bytes({0x48, 0x89, 0xc3});  // mov %rax, %rbx
  }
  for (size_t i = std::size(kSaved); i-- > 0;) e.pop(kSaved[i]);
  e.bytes({0x9d});                                            // popfq
  e.bytes({0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00});  // lea 128(%rsp), %rsp
  e.mov_imm64(rax, back.rax);
  e.bytes({0xff, 0x25, 0, 0, 0, 0});  // jmp *0(%rip)
  e.imm64(back.pc);
  return out;
}

ThreadRegisters remote_entry(const ThreadRegisters& registers, uint64_t address) {
  ThreadRegisters out = registers;
  out.rip = address;
  out.orig_rax = static_cast<decltype(out.orig_rax)>(-1);
  return out;
}

int64_t remote_result(const ThreadRegisters& registers) {
  return static_cast<int64_t>(registers.rax);
}

}  // namespace mdl::arch
