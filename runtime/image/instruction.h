// One decoded instruction, as all shared code sees it: where control goes on, which registers it reads and
// writes, and what the search for sources of addresses wants to know of it. A target's decoder fills it
// (runtime/arch/decoder.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace mdl::image {

enum class Flow : uint8_t {
  next,    // falls through
  jump,    // direct, unconditional
  branch,  // direct, conditional
  call,    // direct
  call_indirect,
  jump_indirect,
  return_,
  system_call,
  stop,  // a trap or a halt: does not continue
};

// A set of registers as bits: general registers by their number in the machine's encoding, 0 to 62, and
// the arithmetic flags, where the machine has any.
using Registers = uint64_t;
inline constexpr Registers kFlags = Registers{1} << 63;
constexpr Registers register_bit(int number) {
  return Registers{1} << number;
}

// The encoding of one instruction, held in place: millions of them are decoded.
class InstructionBytes {
 public:
  static constexpr size_t kMost = 15;  // of the machine with the longest
  // At most kMost bytes.
  void assign(std::span<const std::byte> bytes) {
    size_ = static_cast<uint8_t>(bytes.size());
    std::memcpy(data_.data(), bytes.data(), bytes.size());
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const uint8_t* data() const { return data_.data(); }
  const uint8_t* begin() const { return data(); }
  const uint8_t* end() const { return data() + size_; }
  uint8_t operator[](size_t at) const { return data_[at]; }
  uint8_t& operator[](size_t at) { return data_[at]; }

 private:
  std::array<uint8_t, kMost> data_{};
  uint8_t size_ = 0;
};

struct Instruction {
  uint64_t address = 0;
  uint8_t size = 0;
  Flow flow = Flow::next;
  bool is_padding = false;  // does nothing, or fills what lies between functions
  bool is_landing = false;  // an indirect branch may lead there: must stay the first instruction executed
  bool short_form = false;  // a direct jump or branch that reaches no further than Description::short_reach
  uint8_t pc_relative_at = 0;  // offset of a pc-relative operand's displacement in the bytes, 0 = none
  uint64_t target = 0;         // direct jump, branch, call; 0 otherwise
  Registers reads = 0;         // registers (any width) and flags whose old value may matter
  Registers writes = 0;        // registers that are wholly replaced (64 bits), flags when all of them are
  Registers touches = 0;       // everything written, in whole or in part
  InstructionBytes bytes;
};

// ---- What it computes, as far as addresses are made so (jump_tables.cpp) ---------------

inline constexpr int kNoRegister = -1;
inline constexpr int kPcRegister = 64;  // no general register has this number

// base + index * scale + displacement
struct MemoryOperand {
  int base = kNoRegister;  // a general register, or kPcRegister: the address behind the instruction
  int index = kNoRegister;
  uint8_t scale = 1;
  int64_t displacement = 0;
  bool has_segment = false;  // and something that no general register holds, such as the thread's area
};

enum class Operation : uint8_t {
  other,
  load,      // destination = memory, 4 (sign-extended or zero-extended) or 8 bytes
  address,   // destination = address of the memory operand
  move,      // destination = source
  add,       // destination += source, or += memory when there is no source
  constant,  // destination = immediate
  compare,   // source or memory with immediate
  pop,
};

// When a branch behind a compare is taken: unsigned, the register against the immediate.
enum class Condition : uint8_t { other, above, above_or_equal };

struct Detail {
  Operation operation = Operation::other;
  Condition condition = Condition::other;  // of a branch
  uint8_t load_size = 0;                   // bytes that Operation::load reads
  bool has_memory = false;
  int destination = kNoRegister;
  int source = kNoRegister;
  MemoryOperand memory;
  int64_t immediate = 0;
};

// Decodes instructions from bytes at `address` until they end or one cannot be decoded.
std::vector<Instruction> decode(std::span<const std::byte> bytes, uint64_t address);
// arch::may_fault of one that has been decoded before.
bool may_fault(const Instruction& instruction);

}  // namespace mdl::image
