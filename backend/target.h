// A machine, as the backend sees it: a const description plus five functions. Shared code
// (allocate, stencil, plan_writer, mc_emitter) never asks which target it works for.
// docs/adding-a-target.md goes through it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace mdl::backend {

using Register = uint8_t;  // index into Target::registers
inline constexpr Register kNoRegister = 255;

// A line of a stencil's assembly.
struct Line {
  enum class Kind : uint8_t {
    plain,   // falls through
    jump,    // to `label`, always
    branch,  // to `label`, or falls through
    label,   // `label` itself
    leave,   // to the continuation outside the stencil, or falls through
  };
  Kind kind = Kind::plain;
  std::string text;           // the instruction; of a jump or branch its mnemonic
  uint32_t label = 0;         // of a jump, branch or label: local to the stencil
  bool writes_flags = false;  // changes the condition flags
};

// A snippet with what instruction selection asks of it again and again.
struct Counted {
  explicit Counted(ir::Snippet snippet);

  // True when a comparison is read by the jump_zero behind it and by nothing else: the two become one
  // branch.
  bool is_fused(size_t at) const;

  ir::Snippet snippet;
  std::vector<uint32_t> writes, reads;  // how often each temporary is written and read
};

// The demands of one IR instruction on the register allocator.
struct Needs {
  uint8_t temporaries = 0;             // registers for the instruction's own use, at most 2
  bool no_result = false;              // its result never exists: the next instruction takes it over
  std::span<const Register> destroys;  // fixed registers that it writes after it has read operand a,
                                       // before it has read operand b and written its result; also
                                       // the scratch register, where a routine is called
};

// Which registers a snippet's values are in.
struct Allocation {
  std::vector<Register> temps;                       // by temporary; kNoRegister: it never exists
  std::vector<std::array<Register, 2>> temporaries;  // by instruction
  std::vector<bool> written;                         // by register, without Target::scratch
};

// An instruction that LLVM's models have wrong: what one takes when nothing waits for it, in hundredths of a
// cycle, as bench/cost measured it. `alone`: nothing else goes on meanwhile; else it keeps one unit busy.
struct Measured {
  std::string_view mnemonic;
  std::string_view cpu;  // of which that is known; "" = what holds for those that are not in the table
  uint32_t cycles = 0;
  bool alone = false;
};

// How an instruction uses registers: it reads all that it names, but for the operand that it only writes. One
// that has no row reads every register, for all that the peephole pass knows; so do those that use a register
// which they do not name.
struct Shape {
  // The operand, where it is a register; `third`: the last, where there are three.
  enum class Writes : uint8_t { nothing, first, last, third };
  std::string_view mnemonic;
  Writes writes;
};

// Instructions that may stand for others (backend/peephole.h has the patterns' meaning).
struct Peephole {
  std::string_view from, to;
};

struct Target {
  std::string_view name;                       // --target=NAME and Manifest::target
  std::string_view triple;                     // for LLVM MC
  std::string_view cpu;                        // the default of -mcpu
  std::span<const std::string_view> required;  // features that every CPU must have, in LLVM's words

  std::string_view head = {};  // of the assembly: what tools must be told of the machine
  std::span<const Measured> measured = {};
  std::string (*set_register)(Register) = nullptr;  // to some number: an instruction
  bool numbers_vary = false;  // an immediate takes more instructions or fewer, depending on what it is

  std::span<const std::string_view> registers;  // names, as clobber lists spell them
  std::span<const Register> arguments;          // $arg[n] at entries and before calls
  Register result;                              // $return
  Register scratch;                             // free for every stencil, in no clobber list; resident
                                                // routines take and give their value in it
  Register updated;                             // the address of the cell that a routine updates
  std::span<const Register> order;  // those a stencil may write, cheapest first; never the thread block's

  std::span<const Shape> shapes;
  std::span<const Peephole> peepholes;
  Register (*register_of)(std::string_view word);  // a register by any of its names; kNoRegister: it is none

  Needs (*needs)(const Counted& snippet, size_t at);
  std::vector<Line> (*select)(const Counted& snippet, const Allocation& allocation);
  std::vector<Line> (*guard)();  // tests one flag, and leaves to the continuation when it is 0
};

// The resident routine that an instruction calls, if any.
std::optional<format::Routine> routine(const ir::Snippet& snippet, const ir::Inst& inst);
// Whether that routine gets the address of the instruction's cell.
bool takes_cell(ir::Op op);

// A register by its one name.
Register register_named(std::span<const std::string_view> registers, std::string_view word);

// nullptr when this build does not have the target.
const Target* find_target(std::string_view name);
std::span<const Target* const> all_targets();

}  // namespace mdl::backend
