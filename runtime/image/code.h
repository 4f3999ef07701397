// The machine code of one function, decoded: what the patcher needs to know of each
// instruction, where branches go, and the ways out of the function.
//
// Soundness rule: an address is a branch target unless it is known not to be. `targets`
// holds every address that a direct branch of this object's function, a resolved jump
// table, or an exception landing pad reaches; what follows an unconditional jump, ret or
// call-that-does-not-return is in it too. When an indirect jump inside the function cannot
// be resolved, `unresolved_jump` is set and every instruction may be a target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/image.h"

namespace mdl::image {

enum class Flow : uint8_t {
  next,    // falls through
  jump,    // direct, unconditional
  branch,  // direct, conditional (also loop, jrcxz)
  call,    // direct
  call_indirect,
  jump_indirect,
  return_,
  system_call,
  stop,  // hlt, ud2, int3: does not continue
};

// A set of registers as bits: general registers by their number in the machine's encoding.
// x86_64: bit 0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi, 8..15 r8..r15, 16 the
// arithmetic flags.
using Registers = uint32_t;
inline constexpr Registers kFlags = 1u << 16;

// The encoding of one instruction, held in place: millions of them are decoded.
class InstructionBytes {
 public:
  static constexpr size_t kMost = 15;  // Intel SDM volume 2, section 2.3.11
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
  bool is_padding = false;     // nop of any length, or int3 between functions
  bool is_landing = false;     // endbr64: must stay the first instruction executed
  bool short_form = false;     // a direct jump or branch with an 8-bit displacement
  uint64_t target = 0;         // direct jump, branch, call; 0 otherwise
  uint8_t pc_relative_at = 0;  // offset of a 32-bit pc-relative memory displacement in the bytes, 0 = none
  Registers reads = 0;         // registers (any width) and flags whose old value may matter
  Registers writes = 0;        // registers that are wholly replaced (64 bits), flags when all of them are
  Registers touches = 0;       // everything written, in whole or in part
  InstructionBytes bytes;
};

enum class ExitKind : uint8_t {
  return_,      // ret
  tail_jump,    // direct jump out of the function
  tail_branch,  // conditional jump out of the function: an exit only when taken
  tail_jump_indirect,
};

struct Exit {
  uint64_t address = 0;
  ExitKind kind = ExitKind::return_;
};

// An indirect jump inside the function, and where it may go.
struct Switch {
  uint64_t jump = 0;
  std::vector<uint64_t> targets;  // each once, sorted
  bool exact = true;              // the length of its table is known: it goes nowhere else
};

// An exception that passes a call in `calls` goes on at `pad`.
struct LandingPad {
  Range calls;
  uint64_t pad = 0;
};

struct Code {
  std::vector<Instruction> instructions;  // of the function, its parts and the padding after each, by address
  std::vector<Range> ranges;              // the function's own, its parts and those found here, by address
  std::vector<uint64_t> targets;          // sorted
  std::vector<Exit> exits;                // by address
  std::vector<Switch> switches;           // by address
  std::vector<LandingPad> pads;
  std::vector<uint64_t> entered;        // where code outside of the function may jump to, sorted
  std::vector<uint64_t> entries;        // where ranges, functions and frames begin, sorted
  std::vector<uint64_t> no_return;      // calls that are known not to come back, sorted
  std::vector<uint64_t> returns_twice;  // calls that may come back more than once (setjmp), sorted
  bool unresolved_jump = false;
  bool complete = true;  // every byte of the function was decoded
  std::string doubt;     // why exits cannot be trusted ("" = they can): they are then refused

  bool is_target(uint64_t address) const;
  // True when control may come there from elsewhere without a branch of this function: the place may be the
  // first byte of a patch, and none of the others. A function's own entry is one, and no target.
  bool is_entry(uint64_t address) const;
};

// Decodes a function of a live process. `entry targets`: calls to the entry are not
// targets, jumps to it from inside the function are.
Result<Code> read_code(const Image& image, const Object& object, const Function& function,
                       const Memory& memory);

// Bytes of the code and of the padding behind it, as far as there are any in one piece.
std::vector<uint8_t> bytes_at(const Code& code, uint64_t address, size_t size);

// Decodes instructions from bytes at `address` until they end or one cannot be decoded.
std::vector<Instruction> decode(std::span<const std::byte> bytes, uint64_t address);

}  // namespace mdl::image
