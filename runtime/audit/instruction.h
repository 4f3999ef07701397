// An x86-64 instruction as the auditor sees it. It is decoded by Zydis, not by LLVM as everywhere else: the
// two know nothing of each other, and Zydis takes a tenth of the time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mdl::audit {

enum class Kind : uint8_t {
  plain,   // control goes on behind it
  jump,    // direct
  branch,  // direct, on a condition
  call,    // direct
  indirect_jump,
  indirect_call,
  return_,
  other,  // system calls, traps, far transfers: nothing is claimed of them
};

struct Instruction {
  static constexpr uint8_t kNoCondition = 0xff;
  uint64_t address = 0;
  uint8_t size = 0;
  Kind kind = Kind::plain;
  uint8_t condition = kNoCondition;  // of a jcc: 0..15 (SDM volume 1, appendix B)
  uint8_t operand_at = 0;            // offset of a 32-bit displacement relative to the pc, 0 = there is none
  bool is_padding = false;           // nop of any length, int3
  bool is_landing = false;           // endbr64
  bool is_address = false;           // lea
  uint64_t target = 0;               // of a direct jump, branch or call
  uint64_t operand = 0;              // the address that operand_at makes
  std::array<uint64_t, 2> constants{};  // an immediate, and a displacement that is not relative to the pc
  std::array<uint8_t, 15> bytes{};

  uint64_t end() const { return address + size; }
  // True when control never goes on behind it.
  bool ends_flow() const {
    return kind == Kind::jump || kind == Kind::indirect_jump || kind == Kind::return_;
  }
};

// The size of the instruction at the beginning of `bytes`; 0 when there is none. Takes half as long as
// decode().
uint8_t size_of_instruction(std::span<const std::byte> bytes);
// The instruction at the beginning of `bytes`; nothing when there is none.
std::optional<Instruction> decode(std::span<const std::byte> bytes, uint64_t address);

// True when both do the same, each at its place: a displacement may differ where the place differs, and a
// jump may have its longer form.
bool has_same_effect(const Instruction& original, const Instruction& copy);
// True when `jump` goes where `call` goes, to the same effect but for the return address.
bool goes_on_as(const Instruction& call, const Instruction& jump);

}  // namespace mdl::audit
