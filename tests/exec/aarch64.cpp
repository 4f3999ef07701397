#include <fmt/format.h>
#include <llvm/BinaryFormat/ELF.h>

#include <cstring>

#include "tests/exec/host.h"

namespace mdl::exec {
namespace aarch64 {
namespace {

constexpr int kScratch = 16, kPlatform = 18;

std::string function(std::string_view name, const std::string& body) {
  return fmt::format("\t.globl {0}\n\t.type {0}, @function\n{0}:\n{1}\t.size {0}, .-{0}\n", name, body);
}

// x16, which is free, leads to the code and back to the table of registers.
std::string support() {
  const size_t after = 8 * kRegisterWords, flags = 8 * (kRegisterWords - 1);
  std::string enter = "\tsub sp, sp, #128\n", done = "\tldr x16, [sp, #112]\n", leave;
  for (int r = 19; r <= 29; r += 2) {
    enter += fmt::format("\tstp x{}, x{}, [sp, #{}]\n", r, r + 1, (r - 19) * 8);
    leave += fmt::format("\tldp x{}, x{}, [sp, #{}]\n", r, r + 1, (r - 19) * 8);
  }
  enter += fmt::format("\tstr x0, [sp, #112]\n\tmov x16, x1\n\tldr x1, [x0, #{}]\n\tmsr nzcv, x1\n", flags);
  for (int r = 30; r >= 0; r--) {
    if (r == kScratch || r == kPlatform) continue;
    enter += fmt::format("\tldr x{}, [x0, #{}]\n", r, 8 * r);
    done += fmt::format("\tstr x{}, [x16, #{}]\n", r, after + 8 * static_cast<size_t>(r));
  }
  done += fmt::format("\tmrs x0, nzcv\n\tstr x0, [x16, #{}]\n", after + flags);
  const std::string tick = fmt::format(
      "\tstp x0, x1, [sp, #-16]!\n\tmovz x1, #{0}\n\tmovk x1, #{1}, lsl #16\n\tadd x1, x1, x17\n"
      "\tldr x0, [x1]\n\tldr x15, [x1, #8]\n\tadd x0, x0, x15\n\tstr x0, [x1]\n",
      kClock & 0xffff, kClock >> 16);
  const std::string keep = "\tstr x15, [sp, #-16]!\n", kept =
                                                           "\tldp x0, x1, [sp], #16\n\tldr x15, [sp], #16\n"
                                                           "\tcmp sp, #0\n\tret\n";
  std::string call = keep + "\tstp x0, x1, [sp, #-16]!\n\tldr x0, [x16, #8]\n";
  for (int word = 2; word < 8; word++)
    call += fmt::format("\tldr x1, [x16, #{}]\n\tadd x0, x1, x0, lsl #1\n", 8 * word);
  return function("mdl_enter", enter + "\tbr x16\n") +
         function("mdl_done", done + leave + "\tadd sp, sp, #128\n\tret\n") +
         function("mdl_routine_cpu", keep + tick + "\tmov x16, x0\n" + kept) +
         function("mdl_routine_now", keep + tick + "\tmov x16, x0\n" + kept) +
         function("mdl_routine_error", keep + tick + "\tmov x16, x0\n" + kept) +
         function("mdl_routine_event", keep + tick + "\tadd x16, x16, x0\n" + kept) +
         function("mdl_routine_read", "\tmvn x16, x16\n\tcmp sp, #0\n\tret\n") +
         function("mdl_routine_call", call + "\tmov x16, x0\n" + kept) +
         function("mdl_routine_observe", "\tstadd x16, [x15]\n\tret\n") +
         function("mdl_routine_enter",
                  "\tstr x16, [x15, #8]\n\tldr x16, [x15]\n\tadd x16, x16, #1\n\tstr x16, [x15]\n\tret\n") +
         function("mdl_routine_kept", "\tldr x16, [x15, #8]\n\tcmp sp, #0\n\tret\n") +
         function("mdl_routine_elapsed", "\tldr x16, [x15]\n\tstr xzr, [x15]\n\tcmp sp, #0\n\tret\n") +
         function("mdl_routine_stayed", "\tldr x16, [x15]\n\tstr xzr, [x15]\n\tcmp sp, #0\n\tret\n") +
         function("mdl_routine_pause",
                  "\tldr x16, [x15]\n\tadd x16, x16, #2\n\tstr x16, [x15]\n\tcmp sp, #0\n\tret\n") +
         function("mdl_routine_resume",
                  "\tldr x16, [x15]\n\tadd x16, x16, #4\n\tstr x16, [x15]\n\tcmp sp, #0\n\tret\n");
}

bool relocate(uint32_t type, std::span<std::byte> at, uint64_t place, int64_t value) {
  if (at.size() < 4) return false;
  uint32_t code = 0;
  std::memcpy(&code, at.data(), 4);
  auto field = [&](int64_t what, int bits, int shift) {
    const uint32_t mask = (1u << bits) - 1;
    code = (code & ~(mask << shift)) | ((static_cast<uint32_t>(what) & mask) << shift);
    std::memcpy(at.data(), &code, 4);
    return true;
  };
  auto move = [&](int part, bool checked) {
    if (checked && part < 3 && static_cast<uint64_t>(value) >> (16 * part + 16) != 0) return false;
    return field(value >> (16 * part), 16, 5);
  };
  const int64_t words = static_cast<int64_t>(static_cast<uint64_t>(value) - place) / 4;
  auto reaches = [&](int bits) {
    return words >= -(int64_t{1} << (bits - 1)) && words < int64_t{1} << (bits - 1);
  };
  switch (type) {
    case llvm::ELF::R_AARCH64_MOVW_UABS_G0:
      return move(0, true);
    case llvm::ELF::R_AARCH64_MOVW_UABS_G0_NC:
      return move(0, false);
    case llvm::ELF::R_AARCH64_MOVW_UABS_G1:
      return move(1, true);
    case llvm::ELF::R_AARCH64_MOVW_UABS_G1_NC:
      return move(1, false);
    case llvm::ELF::R_AARCH64_MOVW_UABS_G2_NC:
      return move(2, false);
    case llvm::ELF::R_AARCH64_MOVW_UABS_G3:
      return move(3, true);
    case llvm::ELF::R_AARCH64_CALL26:
    case llvm::ELF::R_AARCH64_JUMP26:
      return reaches(26) && field(words, 26, 0);
    case llvm::ELF::R_AARCH64_CONDBR19:
      return reaches(19) && field(words, 19, 5);
    default:
      return false;
  }
}

}  // namespace
}  // namespace aarch64

const Host& aarch64_host() {
  static const Host host = {.name = "aarch64",
                            .emulator = "qemu-aarch64",
                            .block = 17,
                            .untouched = {aarch64::kPlatform},
                            .flag_bits = 0xf0000000,  // NZCV
                            .support = aarch64::support,
                            .jump_to_done = "b mdl_done",
                            .relocate = aarch64::relocate};
  return host;
}

}  // namespace mdl::exec
