// An instruction as the auditor sees it. A target decodes it here by other means than for all else
// (runtime/arch/<target>/audit_instruction.cpp): the two decoders know nothing of each other. On x86_64 it is
// Zydis, not LLVM, which takes ten times as long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/image/image.h"

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
  uint8_t condition = kNoCondition;  // of a branch, where it has a longer form: as the machine numbers them
  uint8_t operand_at = 0;            // offset of a displacement relative to the pc, 0 = there is none
  bool is_padding = false;           // does nothing, or fills what lies between functions
  bool is_landing = false;           // an indirect branch may lead there
  bool is_address = false;           // its operand's address is its result
  uint64_t target = 0;               // of a direct jump, branch or call
  uint64_t operand = 0;              // the address that operand_at makes
  std::array<uint64_t, 2> constants{};  // an immediate, and a displacement that is not relative to the pc
  std::array<uint8_t, 15> bytes{};      // as many as the longest instruction of any machine has

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
// True when the one branch is taken where the other is not.
bool is_opposite(const Instruction& branch, const Instruction& other);

// Bytes that may be a part of an instruction that leads somewhere: each byte of `text`, which lies at
// `start`, is tried. They find too much, never too little.
struct Lead {
  uint64_t at = 0;          // of a byte of the instruction's displacement or operand
  uint64_t to = 0;          // where it leads
  bool is_address = false;  // it forms that address; those are reported wherever they lead
};
using Report = llvm::function_ref<void(const Lead&)>;
// Branches, calls and operands relative to the pc that lead into `watched`.
void find_leads(std::span<const std::byte> text, uint64_t start, const image::Range& watched, Report report);
// Branches of a short form, likewise, from the code around `watched`.
void find_short_leads(std::span<const std::byte> text, uint64_t start, const image::Range& watched,
                      Report report);
// Operands that are such an address themselves.
void find_constants(std::span<const std::byte> text, uint64_t start, const image::Range& watched,
                    Report report);

}  // namespace mdl::audit
