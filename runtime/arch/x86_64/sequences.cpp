// The few sequences that shared code must recognize (runtime/arch/decoder.h).
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/arch/decoder.h"
#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {
namespace {

using image::InstructionBytes;

// The opcode behind prefixes, and where it stands. Intel SDM volume 2, section 2.1.1: 66 operand size; 2.2.1:
// 40 to 4f REX.
size_t opcode_at(const InstructionBytes& bytes) {
  size_t at = 0;
  while (at + 1 < bytes.size() && (bytes[at] == 0x66 || (bytes[at] & 0xf0) == 0x40)) ++at;
  return at;
}

// push of a register (50 to 57), an immediate (68, 6a) or memory (ff /6): SDM volume 2, PUSH.
bool is_push(const InstructionBytes& bytes) {
  const size_t at = opcode_at(bytes);
  const uint8_t opcode = bytes[at];
  if ((opcode & 0xf8) == 0x50 || opcode == 0x68 || opcode == 0x6a) return true;
  return opcode == 0xff && at + 1 < bytes.size() && ((bytes[at + 1] >> 3) & 7) == 6;
}

// mov of a register or an immediate to (%rsp): 89 or c7 with ModRM mod 0, rm 4 and SIB 24 (SDM volume 2, MOV,
// table 2-3).
bool stores_to_top(const InstructionBytes& bytes) {
  const size_t at = opcode_at(bytes);
  return at + 2 < bytes.size() && (bytes[at] == 0x89 || bytes[at] == 0xc7) &&
         (bytes[at + 1] & 0xc7) == 0x04 && bytes[at + 2] == 0x24;
}

// div and idiv: f6 and f7 /6, /7 (SDM volume 2, DIV, IDIV).
bool is_division(const InstructionBytes& bytes) {
  const size_t at = opcode_at(bytes);
  return (bytes[at] & 0xfe) == 0xf6 && at + 1 < bytes.size() && ((bytes[at + 1] >> 4) & 3) == 3;
}

// movs, cmps, stos, lods and scas: a4 to a7, aa to af but test's a8 and a9 (SDM volume 2, table A-2), perhaps repeated.
bool is_string_operation(const InstructionBytes& bytes) {
  size_t at = 0;
  while (at + 1 < bytes.size() &&
         (bytes[at] == 0x66 || (bytes[at] & 0xfe) == 0xf2 || (bytes[at] & 0xf0) == 0x40))
    ++at;
  return (bytes[at] & 0xf4) == 0xa4 || (bytes[at] & 0xfe) == 0xaa;
}

}  // namespace

bool begins_with_call(std::span<const std::byte> bytes) {
  return bytes.size() >= 5 && bytes[0] == std::byte{0xe8};
}

// `movb $0, 1`: c6 and c7 with ModRM 04 and SIB 25, mov of an immediate to an absolute address (SDM volume 2,
// MOV and 2.1.5).
bool faults(const image::Instruction& one) {
  const InstructionBytes& bytes = one.bytes;
  if (bytes.size() < 8 || (bytes[0] & 0xfe) != 0xc6 || bytes[1] != 0x04 || bytes[2] != 0x25) return false;
  uint32_t address;
  std::memcpy(&address, bytes.data() + 3, sizeof address);
  return address < 4096;
}

bool may_fault(const image::Instruction& one, const image::Detail& detail) {
  constexpr int64_t kProbe = 4096;  // as far below the stack pointer as a red zone never is
  if (one.is_padding) return false;
  if (is_division(one.bytes) || is_string_operation(one.bytes)) return true;
  if (!detail.has_memory || detail.operation == image::Operation::address) return false;
  const image::MemoryOperand& memory = detail.memory;
  if (memory.has_segment || memory.base == image::kPcRegister)
    return false;  // the thread's area, the object's
  return memory.base != rsp || memory.index != image::kNoRegister || memory.displacement <= -kProbe;
}

// `cmp %fs:0x70,%reg`: that word of the thread's area is set apart for it (glibc's tcbhead_t, __private_ss). 64 is fs, 3b
// cmp, and ModRM rm 4 with SIB 25 an absolute address (SDM volume 2, CMP and 2.1.5).
bool asks_for_stack(const image::Instruction& one) {
  constexpr std::array<uint8_t, 4> kWord = {0x70, 0, 0, 0};
  const InstructionBytes& bytes = one.bytes;
  return bytes.size() == 9 && bytes[0] == 0x64 && (bytes[1] & 0xfb) == 0x48 && bytes[2] == 0x3b &&
         (bytes[3] & 0xc7) == 0x04 && bytes[4] == 0x25 &&
         std::equal(kWord.begin(), kWord.end(), bytes.begin() + 5);
}

bool stores_on_top(const image::Instruction& one) {
  return is_push(one.bytes) || stores_to_top(one.bytes);
}

// `jmp *slot(%rip)`, perhaps behind endbr64.
uint64_t read_linkage_stub(std::span<const std::byte> bytes, uint64_t address) {
  image::Instruction one;
  image::Detail detail;
  size_t at = 0;
  for (int step = 0; step < 2; ++step) {
    if (!decode_instruction(bytes.subspan(at), address + at, one, detail)) return 0;
    if (!one.is_landing) break;
    at += one.size;
  }
  const bool is_stub =
      one.flow == image::Flow::jump_indirect && detail.has_memory && detail.memory.base == image::kPcRegister;
  return is_stub ? one.address + one.size + static_cast<uint64_t>(detail.memory.displacement) : 0;
}

// `jmp f.cfi`, filled up with int3 to 8 bytes, or behind endbr64 to 16.
std::optional<CfiEntry> read_cfi_entry(std::span<const std::byte> bytes, uint64_t address) {
  constexpr std::array kLanding = {std::byte{0xf3}, std::byte{0x0f}, std::byte{0x1e},
                                   std::byte{0xfa}};  // endbr64
  constexpr size_t kJump = 5;                         // jmp rel32 is e9 and four bytes (SDM volume 2, JMP)
  constexpr auto kFill = std::byte{0xcc};             // int3
  const bool lands =
      bytes.size() >= kLanding.size() && std::equal(kLanding.begin(), kLanding.end(), bytes.begin());
  const size_t jump = lands ? kLanding.size() : 0, size = lands ? 16 : 8;
  if (bytes.size() < size || address % size != 0 || bytes[jump] != std::byte{0xe9}) return std::nullopt;
  const std::span fill = bytes.subspan(jump + kJump, size - jump - kJump);
  if (std::any_of(fill.begin(), fill.end(), [&](std::byte one) { return one != kFill; })) return std::nullopt;
  int32_t displacement;
  std::memcpy(&displacement, &bytes[jump + 1], sizeof displacement);
  return CfiEntry{size, address + jump + kJump + static_cast<uint64_t>(int64_t{displacement})};
}

}  // namespace mdl::arch
