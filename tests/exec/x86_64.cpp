#include <fmt/format.h>
#include <llvm/BinaryFormat/ELF.h>

#include <cstring>

#include "tests/exec/host.h"

namespace mdl::exec {
namespace x86_64 {
namespace {

constexpr std::string_view kNames[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                       "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
constexpr int kRsp = 4, kRdi = 7, kR10 = 10;
constexpr std::string_view kSaved[] = {"rbx", "rbp", "r12", "r13", "r14", "r15"};

std::string function(std::string_view name, const std::string& body) {
  return fmt::format("\t.globl {0}\n\t.type {0}, @function\n{0}:\n{1}\t.size {0}, .-{0}\n", name, body);
}

// r10, which is free, leads to the code and back to the table of registers.
std::string support() {
  const size_t after = 8 * kRegisterWords, flags = 8 * (kRegisterWords - 1);
  std::string enter, done = "\tpushfq\n\tmovq 8(%rsp), %r10\n";
  for (auto name : kSaved) enter += fmt::format("\tpushq %{}\n", name);
  enter += fmt::format("\tpushq %rdi\n\tmovq %rsi, %r10\n\tpushq {}(%rdi)\n\tpopfq\n", flags);
  for (int r = 0; r < 16; r++) {
    if (r == kRsp || r == kR10) continue;
    if (r != kRdi) enter += fmt::format("\tmovq {}(%rdi), %{}\n", 8 * r, kNames[r]);
    done += fmt::format("\tmovq %{}, {}(%r10)\n", kNames[r], after + 8 * r);
  }
  enter += fmt::format("\tmovq {}(%rdi), %rdi\n\tjmp *%r10\n", 8 * kRdi);
  done += fmt::format("\tpopq %rax\n\tmovq %rax, {}(%r10)\n\tpopq %rdi\n", after + flags);
  for (size_t i = std::size(kSaved); i-- > 0;) done += fmt::format("\tpopq %{}\n", kSaved[i]);
  const std::string tick =
      fmt::format("\tpushq %rax\n\tmovq {0}(%r11), %rax\n\taddq {1}(%r11), %rax\n\tmovq %rax, {0}(%r11)\n",
                  kClock, kStep);
  std::string call = "\tpushq %rax\n\tmovq 8(%r10), %rax\n";
  for (int word = 2; word < 8; word++)
    call += fmt::format("\taddq %rax, %rax\n\taddq {}(%r10), %rax\n", 8 * word);
  return function("mdl_enter", enter) + function("mdl_done", done + "\tretq\n") +
         function("mdl_routine_cpu", tick + "\tmovq %rax, %r10\n\tpopq %rax\n\tretq\n") +
         function("mdl_routine_now", tick + "\tmovq %rax, %r10\n\tpopq %rax\n\tretq\n") +
         function("mdl_routine_error", tick + "\tmovq %rax, %r10\n\tpopq %rax\n\tretq\n") +
         function("mdl_routine_event", tick + "\taddq %rax, %r10\n\tpopq %rax\n\tretq\n") +
         function("mdl_routine_read", "\txorq $-1, %r10\n\tretq\n") +
         function("mdl_routine_call", call + "\tmovq %rax, %r10\n\tpopq %rax\n\tretq\n") +
         function("mdl_routine_observe", "\taddq %r10, (%rax)\n\tretq\n") +
         function("mdl_routine_enter",
                  "\tmovq %r10, 8(%rax)\n\taddq $1, (%rax)\n\tmovq $-1, %r10\n\tretq\n") +
         function("mdl_routine_kept", "\txorl %r10d, %r10d\n\taddq 8(%rax), %r10\n\tretq\n") +
         function("mdl_routine_elapsed", "\tmovq (%rax), %r10\n\tandq $0, (%rax)\n\tretq\n") +
         function("mdl_routine_stayed", "\tmovq (%rax), %r10\n\tandq $0, (%rax)\n\tretq\n") +
         function("mdl_routine_pause", "\taddq $2, (%rax)\n\tmovq $-1, %r10\n\tretq\n") +
         function("mdl_routine_resume", "\taddq $4, (%rax)\n\tmovq $-1, %r10\n\tretq\n");
}

bool relocate(uint32_t type, std::span<std::byte> at, uint64_t place, int64_t value) {
  auto put = [&](int64_t what, size_t size) {
    if (at.size() < size) return false;
    std::memcpy(at.data(), &what, size);
    return true;
  };
  const auto relative = static_cast<int64_t>(static_cast<uint64_t>(value) - place);
  switch (type) {
    case llvm::ELF::R_X86_64_64:
      return put(value, 8);
    case llvm::ELF::R_X86_64_32S:
      return value == static_cast<int32_t>(value) && put(value, 4);
    case llvm::ELF::R_X86_64_8:
      return value >= 0 && value < 256 && put(value, 1);
    case llvm::ELF::R_X86_64_PC32:
    case llvm::ELF::R_X86_64_PLT32:
      return relative == static_cast<int32_t>(relative) && put(relative, 4);
    default:
      return false;
  }
}

}  // namespace
}  // namespace x86_64

const Host& x86_64_host() {
  static const Host host = {.name = "x86_64",
                            .emulator = "",
                            .block = 11,
                            .untouched = {x86_64::kRsp},
                            .flag_bits = 0x8d5,  // CF PF AF ZF SF OF (Intel SDM vol. 1, 3.4.3)
                            .support = x86_64::support,
                            .jump_to_done = "jmp mdl_done",
                            .relocate = x86_64::relocate};
  return host;
}

}  // namespace mdl::exec
