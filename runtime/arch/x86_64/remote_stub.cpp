// A remote system call that survives the injector's death at any instruction.
//
// The thread is sent to a stub with one change of registers (pc; orig_rax = -1 so that the
// kernel winds nothing back). The stub saves on the thread's own stack, below the red
// zone, all it uses, makes its calls, restores everything and jumps to where the
// thread was. A thread that was stopped inside a system call goes back to its `syscall`
// instruction with the number of the call, or with restart_syscall (219) where the kernel
// keeps the rest of a time-out in the restart block: mmap and its kind do not touch it.
// So no EINTR is seen, and nothing but the stub itself knows where to go back to.
// It blocks all signals for its calls, and gives the thread its mask back: none has to be kept for it
// elsewhere, where it would be lost with the injector.
#include "runtime/arch/remote_stub.h"

#include <asm/unistd_64.h>

#include <cstdint>

#include "runtime/arch/x86_64/emitter.h"
#include "runtime/arch/x86_64/thread_words.h"

namespace mdl::arch {
namespace {

constexpr Reg kSaved[] = {rax, rcx, rdx, rbx, rsi, rdi, r8, r9, r10, r11};
constexpr Reg kArgs[] = {rdi, rsi, rdx, r10, r8, r9};  // of a system call

// rt_sigprocmask(SIG_SETMASK, new, 0, 8), with the masks on the stack: the thread's at (%rsp), all at
// 8(%rsp).
void set_mask(Emitter& e, bool to_all) {
  constexpr uint64_t kSetMask = 2;
  e.mov_imm(rdi, kSetMask);
  if (to_all)
    e.bytes({0x48, 0x8d, 0x74, 0x24, 0x08});  // lea 8(%rsp), %rsi
  else
    e.bytes({0x48, 0x89, 0xe6});  // mov %rsp, %rsi
  e.bytes({0x31, 0xd2});          // xor %edx, %edx: the old one is known
  e.mov_imm(r10, 8);
  e.mov_imm(rax, __NR_rt_sigprocmask);
  e.bytes({0x0f, 0x05});  // syscall
}

// Where the thread is when it is back, and what must be in rax then.
struct Return {
  uint64_t pc;
  uint64_t rax;
};

Return way_back(const ThreadRegisters& regs) {
  long number = system_call(regs);
  auto result = static_cast<int64_t>(regs.words[word_rax]);
  constexpr uint64_t kSyscallSize = 2;  // 0f 05
  if (number >= 0 && result <= -512 && result >= -514)
    return {regs.words[word_rip] - kSyscallSize, static_cast<uint64_t>(number)};
  if (number >= 0 && result == -516) return {regs.words[word_rip] - kSyscallSize, __NR_restart_syscall};
  return {regs.words[word_rip], regs.words[word_rax]};
}

}  // namespace

RemoteStub remote_stub(std::span<const RemoteCall> calls, std::string_view text,
                       const ThreadRegisters& registers, uint64_t signal_mask, uint64_t address) {
  Return back = way_back(registers);
  RemoteStub stub;
  Bytes& out = stub.code;
  const auto made = [&](long number) { stub.calls.push_back({number, address + out.size()}); };
  Emitter e(out, address);
  e.jump(address + 5 + text.size());
  for (char c : text) e.bytes({static_cast<uint8_t>(c)});
  uint64_t text_at = address + 5;
  e.bytes({0x48, 0x8d, 0x64, 0x24, 0x80});  // lea -128(%rsp), %rsp: over the red zone
  e.bytes({0x9c});                          // pushfq
  for (Reg r : kSaved) e.push(r);
  e.bytes({0xfc, 0x6a, 0xff});  // cld; push $-1: all signals
  e.mov_imm64(rax, signal_mask);
  e.push(rax);
  set_mask(e, true);
  made(__NR_rt_sigprocmask);
  for (const RemoteCall& call : calls) {
    for (size_t i = 0; i < call.args.size(); i++) {
      uint64_t value = call.args[i];
      if (value == kLastResult) {
        // mov %rbx, reg
        e.bytes({static_cast<uint8_t>(kArgs[i] >= 8 ? 0x49 : 0x48), 0x89,
                 static_cast<uint8_t>(0xc0 | (rbx << 3) | (kArgs[i] & 7))});
      } else {
        if ((value & 0xffffffff00000000u) == kTextTag)  // of one size wherever it lies
          e.mov_imm64(kArgs[i], text_at + (value & 0xffffffffu));
        else
          e.mov_imm(kArgs[i], value);
      }
    }
    e.mov_imm(rax, static_cast<uint64_t>(call.number));
    e.bytes({0x0f, 0x05});  // syscall
    made(call.number);
    if (call.keep) e.bytes({0x48, 0x89, 0xc3});  // mov %rax, %rbx
  }
  set_mask(e, false);
  made(__NR_rt_sigprocmask);
  e.bytes({0x48, 0x8d, 0x64, 0x24, 0x10});  // lea 16(%rsp), %rsp
  for (size_t i = std::size(kSaved); i-- > 0;) e.pop(kSaved[i]);
  e.bytes({0x9d});                                            // popfq
  e.bytes({0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00});  // lea 128(%rsp), %rsp
  e.mov_imm64(rax, back.rax);
  e.bytes({0xff, 0x25, 0, 0, 0, 0});  // jmp *0(%rip)
  e.imm64(back.pc);
  return stub;
}

// The kernel takes -1 for no call: rax becomes -ENOSYS.
void drop_call(ThreadRegisters& registers) {
  registers.words[word_orig_rax] = kNoCall;
}

ThreadRegisters remote_entry(const ThreadRegisters& registers, uint64_t address) {
  constexpr uint64_t kTrapFlag = 0x100;  // of a program that steps through itself
  ThreadRegisters out = registers;
  out.words[word_rip] = address;
  out.words[word_eflags] &= ~kTrapFlag;  // a trap while signals are blocked ends a program
  out.words[word_orig_rax] = kNoCall;
  return out;
}

}  // namespace mdl::arch
