// Where a started program waits at its entry. All registers are kept; the stack below 128 bytes under the
// stack pointer is used. Only getpid and nanosleep are called.
#include "runtime/arch/entry_stub.h"

#include <asm/unistd_64.h>

#include <cstring>

#include "runtime/arch/target_data.h"
#include "runtime/arch/x86_64/emitter.h"
#include "runtime/arch/x86_64/thread_words.h"

namespace mdl::arch {
namespace {

constexpr Reg kKept[] = {rax, rcx, rdx, rbx, rsi, rdi, r11};
constexpr uint64_t kRedZone = 128;
constexpr size_t kTime = 2;  // words of struct timespec
constexpr size_t kStackWords = kTime + std::size(kKept) + 1;  // and the flags

}  // namespace

EntryStub entry_stub(std::string_view mark, pid_t pid, uint64_t entry, uint64_t word, uint64_t address) {
  EntryStub stub;
  stub.stack = kStackWords * sizeof(uint64_t);
  Bytes& out = stub.code;
  Emitter e(out, address);
  const size_t code = e.jump();
  out.insert(out.end(), mark.begin(), mark.end());
  stub.beat = e.here();
  e.imm64(0);
  e.fill(code, e.here());
  e.bytes({0x48, 0x8d, 0x64, 0x24, 0x80});  // lea -128(%rsp), %rsp
  e.bytes({0x9c});                          // pushfq
  for (Reg r : kKept) e.push(r);
  e.mov_imm(rax, __NR_getpid);
  e.bytes({0x0f, 0x05});  // syscall
  e.bytes({0x3d});        // cmp $pid, %eax
  e.imm32(static_cast<uint32_t>(pid));
  const size_t other = e.branch(kNotEqual);  // a child that was forked on the way
  e.mov_imm64(rax, entry);
  e.mov_imm64(rcx, word);
  e.bytes({0x48, 0x89, 0x01});  // mov %rax, (%rcx)
  e.mov_imm(rax, kNapNs);
  e.push(rax);
  e.bytes({0x6a, 0x00, 0x31, 0xdb});  // push $0; xor %ebx, %ebx
  e.bytes({0x31, 0xd2});              // xor %edx, %edx
  stub.waits.start = e.here();
  e.bytes({0x48, 0x89, 0xe7, 0x31, 0xf6});  // mov %rsp, %rdi; xor %esi, %esi
  e.mov_imm(rax, __NR_nanosleep);
  e.bytes({0x0f, 0x05});        // syscall
  e.bytes({0x48, 0x8b, 0x0d});  // mov beat(%rip), %rcx
  e.imm32(static_cast<uint32_t>(stub.beat - (e.here() + 4)));
  e.bytes({0x48, 0x39, 0xd1});  // cmp %rdx, %rcx
  const size_t same = e.branch(kEqual);
  e.bytes({0x48, 0x89, 0xca, 0x31, 0xdb});  // mov %rcx, %rdx; xor %ebx, %ebx
  e.fill(same, e.here());
  e.bytes({0xff, 0xc3, 0x81, 0xfb});  // inc %ebx; cmp $kNaps, %ebx
  e.imm32(kNaps);
  e.branch(kBelow, stub.waits.start);
  stub.waits.end = e.here();
  e.bytes({0x48, 0x8d, 0x64, 0x24, 0x10});  // lea 16(%rsp), %rsp
  e.fill(other, e.here());
  for (size_t i = std::size(kKept); i-- > 0;) e.pop(kKept[i]);
  e.bytes({0x9d});                                            // popfq
  e.bytes({0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00});  // lea 128(%rsp), %rsp
  e.bytes({0xff, 0x25, 0, 0, 0, 0});                          // jmp *0(%rip)
  e.imm64(entry);
  return stub;
}

ThreadRegisters leave_entry_stub(const ThreadRegisters& registers, std::span<const std::byte> stack,
                                 uint64_t entry) {
  ThreadRegisters out = registers;
  uint64_t words[kStackWords];
  std::memcpy(words, stack.data(), sizeof words);
  size_t at = kTime;
  for (const Word word : {word_r11, word_rdi, word_rsi, word_rbx, word_rdx, word_rcx, word_rax, word_eflags})
    out.words[word] = words[at++];
  out.words[word_rsp] += sizeof words + kRedZone;
  out.words[word_rip] = entry;
  out.words[word_orig_rax] = kNoCall;
  return out;
}

std::vector<PlannedCall> entry_stub_calls() {
  return {{__NR_getpid, {}, {}}, {__NR_nanosleep, {kUnknown, 0}, {}}};
}

}  // namespace mdl::arch
