// Displacements of 32 bits follow the opcode of a call (e8) or a jump (jmp e9, jcc 0f 80..8f), or the ModRM
// of an operand relative to %rip: mod = 00 and rm = 101 (SDM volume 2, CALL, JMP, Jcc and 2.2.1.6).
#include "runtime/arch/code_search.h"

#include <cstring>

#include "runtime/arch/x86_64/displacements.h"

namespace mdl::arch {
namespace {

// A displacement behind the opcode of a jump.
inline bool is_of_jump(const uint8_t* bytes, size_t at) {
  return (at >= 1 && bytes[at - 1] == 0xe9) ||
         (at >= 2 && (bytes[at - 1] & 0xf0) == 0x80 && bytes[at - 2] == 0x0f);
}

// A displacement behind the opcode of a call, or behind such a ModRM.
inline bool is_of_reference(const uint8_t* bytes, size_t at) {
  return at >= 1 && (bytes[at - 1] == 0xe8 || (bytes[at - 1] & 0xc7) == 0x05) && !is_of_jump(bytes, at);
}

// lea with REX.W and such a ModRM.
inline bool is_of_address(const uint8_t* bytes, size_t at) {
  return at >= 3 && (bytes[at - 1] & 0xc7) == 0x05 && bytes[at - 2] == 0x8d && (bytes[at - 3] & 0xf8) == 0x48;
}

// The bytes of a ModRM and what follows it: SIB and displacement (SDM volume 2, 2.1.3).
size_t modrm_size(const uint8_t* modrm) {
  const int mod = modrm[0] >> 6, rm = modrm[0] & 7;
  if (mod == 3) return 1;
  const bool has_sib = rm == 4;
  const bool is_far = mod == 2 || (mod == 0 && (rm == 5 || (has_sib && (modrm[1] & 7) == 5)));
  return 1 + (has_sib ? 1 : 0) + (is_far ? 4 : mod);
}

// An immediate of 32 bits, or the lower half of one of 64, of an instruction that keeps or hands on what it is: behind
// the opcode of mov to a register (b8..bf) or of push (68), or behind the operand of mov (c7 /0).
bool is_of_constant(const uint8_t* bytes, size_t at) {
  if (at >= 1 && ((bytes[at - 1] & 0xf8) == 0xb8 || bytes[at - 1] == 0x68)) return true;
  constexpr size_t kMostOfModrm = 6;
  for (size_t size = 1; size <= kMostOfModrm && size + 1 <= at; ++size) {
    const uint8_t* modrm = bytes + at - size;
    if (modrm[-1] == 0xc7 && (modrm[0] & 0x38) == 0 && modrm_size(modrm) == size) return true;
  }
  return false;
}

const uint8_t* raw_bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

}  // namespace

void find_far_branches(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                       llvm::function_ref<void(const FarBranch&)> found) {
  const uint8_t* raw = raw_bytes(bytes);
  find_displacements(bytes, start, within, [&](size_t at, uint64_t target) {
    const bool is_call = raw[at - 1] == 0xe8;
    if (is_call || is_of_jump(raw, at))
      found({start + at - ((raw[at - 1] & 0xf0) == 0x80 ? 2 : 1), target, is_call});
    else if (is_of_address(raw, at))
      found({.source = start + at - 3, .target = target, .is_formed = true});
  });
}

// The first bytes of opcodes are looked for with memchr: programs have a hundred million bytes.
bool any_far_jump(std::span<const std::byte> bytes, uint64_t start, llvm::function_ref<bool(uint64_t)> test) {
  const uint8_t* raw = raw_bytes(bytes);
  const uint8_t* end = raw + bytes.size();
  for (const uint8_t opcode : {0xe9, 0x0f})
    for (const uint8_t* at = raw; at < end; ++at) {
      at = static_cast<const uint8_t*>(std::memchr(at, opcode, static_cast<size_t>(end - at)));
      if (!at) break;
      const auto behind = static_cast<size_t>(at - raw) + (opcode == 0xe9 ? 1 : 2);
      if (behind + 4 > bytes.size()) break;
      if (is_of_jump(raw, behind) && test(target_of(raw, behind, start))) return true;
    }
  return false;
}

// The buffer has the frame pointer, the place and, 16 bytes from its beginning, the stack pointer. That one is loaded
// last, so that nothing but moves between registers comes between that and the jump: mov 16(%reg),%rsp, with REX.W and
// ModRM mod = 01, reg = 4, or relative to %rip; jmp *%reg is ff /4 with mod = 11 (SDM volume 2, MOV, JMP, 2.2.1).
uint64_t find_stack_jump(std::span<const std::byte> bytes, uint64_t start) {
  const uint8_t* const raw = raw_bytes(bytes);
  const uint8_t* const end = raw + bytes.size();
  const auto is_move = [](const uint8_t* at) {
    return (at[0] & 0xf8) == 0x48 && (at[1] == 0x89 || at[1] == 0x8b) && (at[2] & 0xc0) == 0xc0;
  };
  const auto is_jump = [](const uint8_t* at) {
    if (*at == 0x3e) ++at;  // notrack
    if (*at == 0x41) ++at;
    return at[0] == 0xff && (at[1] & 0xf8) == 0xe0;
  };
  if (bytes.size() <= kMostOfStackJump) return 0;
  for (const uint8_t* at = raw + 1; at + kMostOfStackJump < end; ++at) {
    at = static_cast<const uint8_t*>(std::memchr(at, 0x8b, static_cast<size_t>(end - at)));
    if (!at || at + kMostOfStackJump >= end) break;
    if ((at[-1] & 0xfe) != 0x48) continue;
    const bool by_register = (at[1] & 0xf8) == 0x60 && at[1] != 0x64 && at[2] == 16;
    const bool by_based_index = at[1] == 0x64 && at[2] == 0x24 && at[3] == 16;  // %r12, %rsp
    const bool by_pc = at[1] == 0x25 && at[-1] == 0x48;
    if (!by_register && !by_based_index && !by_pc) continue;
    const uint8_t* behind = at + (by_pc ? 6 : by_based_index ? 4 : 3);
    while (behind < at + 12 && is_move(behind)) behind += 3;
    if (is_jump(behind)) return start + static_cast<uint64_t>(at - 1 - raw);
  }
  return 0;
}

// wrfsbase %r64 is f3, REX.W, 0f ae /2 with mod = 11 (SDM volume 2).
uint64_t find_pointer_change(std::span<const std::byte> bytes, uint64_t start) {
  if (bytes.size() < kMostOfPointerChange) return 0;
  const uint8_t* const raw = raw_bytes(bytes);
  const uint8_t* const last = raw + bytes.size() - 1;
  for (const uint8_t* at = raw + 3; at < last; ++at) {
    at = static_cast<const uint8_t*>(std::memchr(at, 0xae, static_cast<size_t>(last - at)));
    if (!at) break;
    if (at[-3] == 0xf3 && (at[-2] & 0xf8) == 0x48 && at[-1] == 0x0f && (at[1] & 0xf8) == 0xd0)
      return start + static_cast<uint64_t>(at - 3 - raw);
  }
  return 0;
}

// mov $imm64 is the only instruction that has one.
uint64_t find_constant(std::span<const std::byte> bytes, uint64_t start, uint64_t constant) {
  if (bytes.empty()) return 0;
  const auto* found =
      static_cast<const std::byte*>(memmem(bytes.data(), bytes.size(), &constant, sizeof constant));
  return found ? start + static_cast<uint64_t>(found - bytes.data()) : 0;
}

// jcc rel8 is 70..7f, loop and jrcxz e0..e3, jmp rel8 eb (SDM volume 2).
bool may_branch_into(std::span<const std::byte> bytes, uint64_t start, const image::Range& into) {
  const uint8_t* raw = raw_bytes(bytes);
  for (size_t i = 0; i + 2 <= bytes.size(); ++i) {
    if ((raw[i] & 0xf0) != 0x70 && (raw[i] & 0xfc) != 0xe0 && raw[i] != 0xeb) continue;
    if (into.contains(start + i + 2 + static_cast<uint64_t>(int64_t{static_cast<int8_t>(raw[i + 1])})))
      return true;
  }
  return false;
}

// An instruction that takes an address (lea) has nothing behind its displacement.
void find_operands(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                   std::vector<uint64_t>& places) {
  const uint8_t* raw = raw_bytes(bytes);
  find_displacements(bytes, start, within, [&](size_t at, uint64_t target) {
    if ((raw[at - 1] & 0xc7) == 0x05) places.push_back(target);
  });
}

void find_references(std::span<const std::byte> bytes, uint64_t start, const image::Range& within,
                     std::vector<uint64_t>& places) {
  const uint8_t* raw = raw_bytes(bytes);
  find_displacements(bytes, start, within, [&](size_t at, uint64_t target) {
    if (is_of_reference(raw, at)) places.push_back(target);
  });
}

// Programs at a fixed address lie below 2 GiB, where an address is an operand of 32 bits.
void find_whole_addresses(std::span<const std::byte> bytes, const image::Range& within,
                          std::vector<uint64_t>& places) {
  const uint8_t* raw = raw_bytes(bytes);
  for (size_t at = 1; at + sizeof(uint32_t) <= bytes.size(); ++at) {
    uint32_t word;
    std::memcpy(&word, raw + at, sizeof word);
    if (within.contains(word) && is_of_constant(raw, at)) places.push_back(word);
  }
}

}  // namespace mdl::arch
