#include <fmt/format.h>
#include <llvm/BinaryFormat/ELF.h>

#include <cstring>

#include "tests/exec/host.h"

namespace mdl::exec {
namespace riscv64 {
namespace {

constexpr int kSp = 2, kGp = 3, kTp = 4, kA0 = 10, kScratch = 30;
bool is_left_alone(int r) {
  return r == 0 || r == kSp || r == kGp || r == kTp || r == kScratch;
}
constexpr int kSaved[] = {1, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27};

std::string function(std::string_view name, const std::string& body) {
  return fmt::format("\t.globl {0}\n\t.type {0}, @function\n{0}:\n{1}\t.size {0}, .-{0}\n", name, body);
}

// t5, which is free, leads to the code and back to the table of registers.
std::string support() {
  const size_t after = 8 * kRegisterWords;
  std::string enter = "\taddi sp, sp, -128\n", done = "\tld t5, 120(sp)\n", leave;
  for (size_t i = 0; i < std::size(kSaved); i++) {
    enter += fmt::format("\tsd x{}, {}(sp)\n", kSaved[i], 8 * i);
    leave += fmt::format("\tld x{}, {}(sp)\n", kSaved[i], 8 * i);
  }
  enter += "\tsd a0, 120(sp)\n\tmv t5, a1\n";
  for (int r = 0; r < 32; r++) {
    if (is_left_alone(r)) continue;
    if (r != kA0) enter += fmt::format("\tld x{}, {}(a0)\n", r, 8 * r);
    done += fmt::format("\tsd x{}, {}(t5)\n", r, after + 8 * static_cast<size_t>(r));
  }
  enter += fmt::format("\tld a0, {}(a0)\n\tjr t5\n", 8 * kA0);
  const std::string keep = "\taddi sp, sp, -32\n\tsd a0, 0(sp)\n\tsd a1, 8(sp)\n\tsd a2, 16(sp)\n";
  const std::string kept = "\tld a0, 0(sp)\n\tld a1, 8(sp)\n\tld a2, 16(sp)\n\taddi sp, sp, 32\n\tjr t0\n";
  const std::string tick = keep + fmt::format(
                                      "\tli a1, {}\n\tadd a1, a1, t6\n\tld a0, 0(a1)\n\tld a2, 8(a1)\n"
                                      "\tadd a0, a0, a2\n\tsd a0, 0(a1)\n",
                                      kClock);
  std::string call = keep + "\tld a0, 8(t5)\n";
  for (int word = 2; word < 8; word++)
    call += fmt::format("\tslli a0, a0, 1\n\tld a1, {}(t5)\n\tadd a0, a0, a1\n", 8 * word);
  return function("mdl_enter", enter) + function("mdl_done", done + leave + "\taddi sp, sp, 128\n\tret\n") +
         function("mdl_routine_cpu", tick + "\tmv t5, a0\n" + kept) +
         function("mdl_routine_now", tick + "\tmv t5, a0\n" + kept) +
         function("mdl_routine_error", tick + "\tmv t5, a0\n" + kept) +
         function("mdl_routine_event", tick + "\tadd t5, t5, a0\n" + kept) +
         function("mdl_routine_read", "\tnot t5, t5\n\tjr t0\n") +
         function("mdl_routine_call", call + "\tmv t5, a0\n" + kept) +
         function("mdl_routine_observe", "\tamoadd.d zero, t5, (t4)\n\tjr t0\n") +
         function("mdl_routine_enter",
                  "\tsd t5, 8(t4)\n\tld t5, 0(t4)\n\taddi t5, t5, 1\n\tsd t5, 0(t4)\n\tjr t0\n") +
         function("mdl_routine_kept", "\tld t5, 8(t4)\n\tjr t0\n") +
         function("mdl_routine_elapsed", "\tld t5, 0(t4)\n\tsd zero, 0(t4)\n\tjr t0\n") +
         function("mdl_routine_stayed", "\tld t5, 0(t4)\n\tsd zero, 0(t4)\n\tjr t0\n") +
         function("mdl_routine_pause", "\tld t5, 0(t4)\n\taddi t5, t5, 2\n\tsd t5, 0(t4)\n\tjr t0\n") +
         function("mdl_routine_resume", "\tld t5, 0(t4)\n\taddi t5, t5, 4\n\tsd t5, 0(t4)\n\tjr t0\n");
}

// The upper 20 bits, of which the lower 12, with their sign, are the rest.
bool is_within_32_bits(int64_t value) {
  return value >= -(int64_t{1} << 31) - 0x800 && value < (int64_t{1} << 31) - 0x800;
}

bool relocate(uint32_t type, std::span<std::byte> at, uint64_t place, int64_t value) {
  uint32_t code[2] = {};
  const size_t size = type == llvm::ELF::R_RISCV_CALL_PLT ? 8 : 4;
  if (at.size() < size) return false;
  std::memcpy(code, at.data(), size);
  const auto distance = static_cast<int64_t>(static_cast<uint64_t>(value) - place);
  auto upper = [](int64_t of) {
    return static_cast<uint32_t>(static_cast<uint64_t>(of) + 0x800) & 0xfffff000;
  };
  auto bits = [](int64_t of, int from, int count) {
    return static_cast<uint32_t>(of >> from) & ((1u << count) - 1);
  };
  switch (type) {
    case llvm::ELF::R_RISCV_HI20:
      if (value != static_cast<int32_t>(value)) return false;
      code[0] = (code[0] & 0xfff) | upper(value);
      break;
    case llvm::ELF::R_RISCV_LO12_I:
      code[0] = (code[0] & 0xfffff) | bits(value, 0, 12) << 20;
      break;
    case llvm::ELF::R_RISCV_LO12_S:
      code[0] = (code[0] & 0x01fff07f) | bits(value, 5, 7) << 25 | bits(value, 0, 5) << 7;
      break;
    case llvm::ELF::R_RISCV_CALL_PLT:
      if (!is_within_32_bits(distance)) return false;
      code[0] = (code[0] & 0xfff) | upper(distance);
      code[1] = (code[1] & 0xfffff) | bits(distance, 0, 12) << 20;
      break;
    case llvm::ELF::R_RISCV_JAL:
      if (distance < -(1 << 20) || distance >= 1 << 20) return false;
      code[0] = (code[0] & 0xfff) | bits(distance, 20, 1) << 31 | bits(distance, 1, 10) << 21 |
                bits(distance, 11, 1) << 20 | bits(distance, 12, 8) << 12;
      break;
    default:
      return false;
  }
  std::memcpy(at.data(), code, size);
  return true;
}

}  // namespace
}  // namespace riscv64

const Host& riscv64_host() {
  static const Host host = {.name = "riscv64",
                            .emulator = "qemu-riscv64",
                            .block = 31,
                            .untouched = {0, riscv64::kSp, riscv64::kGp, riscv64::kTp},
                            .flag_bits = 0,
                            .support = riscv64::support,
                            .jump_to_done = "j mdl_done",
                            .relocate = riscv64::relocate};
  return host;
}

}  // namespace mdl::exec
