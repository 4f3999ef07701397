// The machine code of one function, decoded: what the patcher needs to know of each
// instruction, where branches go, and the ways out of the function.
//
// Soundness rule: an address is a branch target unless it is known not to be. `targets`
// holds every address that a direct branch of this object's function, a resolved jump
// table, or an exception landing pad reaches; what follows an unconditional jump, return or
// call-that-does-not-return is in it too. When an indirect jump inside the function cannot
// be resolved, `unresolved_jump` is set and every instruction may be a target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/image.h"
#include "runtime/image/instruction.h"

namespace mdl::image {

enum class ExitKind : uint8_t {
  return_,      // to the caller
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
  std::vector<uint64_t> arrivals;       // those of them to which an instruction there does jump, sorted
  std::vector<uint64_t> may_arrive;     // those of which that is not known, sorted
  std::vector<uint64_t> entries;        // where ranges, functions and frames begin, sorted
  std::vector<uint64_t> no_return;      // calls that are known not to come back, sorted
  std::vector<uint64_t> returns_twice;  // calls that may come back more than once (setjmp), sorted
  bool unresolved_jump = false;
  bool catches_faults = false;  // an instruction that may fault must do so in its place (caught_faults.h)
  bool complete = true;         // every byte of the function was decoded
  std::string doubt;            // why exits cannot be trusted ("" = they can): they are then refused

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

}  // namespace mdl::image
