// Stencils of x86_64, decoded for the verifier: LLVM's disassembler stays behind this.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/plan/plan.h"

namespace mdl::plan::x86_64 {

// The general registers, in the order of their encoding. Parts of one (eax, al, ah) count
// as the whole.
enum Register : int8_t {
  kNone = -1,
  kRax,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR8,
  kR9,
  kR10,
  kR11,
  kR12,
  kR13,
  kR14,
  kR15,
  kRegisters,
};
constexpr uint32_t bit(Register r) {
  return r == kNone ? 0u : 1u << r;
}
std::string_view register_name(Register r);  // "rax"
Register register_named(std::string_view name);
Register lowest(uint32_t registers);  // of a set that is not empty

enum class Access : uint8_t { none, load, store, update };

enum class Flow : uint8_t { next, jump, if_equal, if_not_equal, if_other };

// The effects on values that the verifier follows: enough to see that a division cannot trap.
enum class Effect : uint8_t {
  plain,
  set,         // operand 0 = operand 1, an immediate
  copy,        // operand 0 = operand 1, a register
  test,        // flags of operand 0 & operand 1, registers
  compare,     // flags of operand 0 - operand 1, a register and an immediate
  extend_rax,  // cqo
  divide,      // rdx:rax / operand 0
  address,     // operand 0 = the address of a memory operand
  call,        // of a resident routine
};

struct DecodedOperand {
  bool no_register = false;  // a register operand that names none
  Register reg = kNone;      // a general register, else kNone
  int64_t value = 0;         // an immediate, displacement or branch distance
};

struct Decoded {
  uint32_t offset = 0;
  uint8_t size = 0;
  unsigned opcode = 0;
  std::string name;  // LLVM's
  Access access = Access::none;
  Flow flow = Flow::next;
  Effect effect = Effect::plain;
  std::vector<DecodedOperand> operands;
  int memory = -1;              // index of the first of five operands: base scale index displacement segment
  std::map<int, size_t> holes;  // operand -> index into Stencil::holes
  uint32_t written = 0;         // set of general registers
  uint32_t read = 0;            // likewise
  bool writes_flags = false;
  bool writes_other = false;  // any further register
};

// The whole stencil, in address order. Fails on an instruction that is not on the list,
// on a prefix, and on a hole that is not exactly one field.
Result<std::vector<Decoded>> decode_stencil(const Stencil& stencil);

// Replaces the operands at holes by what is in `filled`, which must decode to the same
// instructions.
Result<void> read_filled(const Stencil& stencil, std::span<const std::byte> filled,
                         std::vector<Decoded>& code);

}  // namespace mdl::plan::x86_64
