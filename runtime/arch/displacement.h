// Moving instructions: what a window overwrites runs in the trampoline instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/arch/bytes.h"
#include "runtime/image/instruction.h"

namespace mdl::arch {

// True when an instruction does elsewhere what it does at its place, after emit_displaced has
// adjusted it. A call is not: its return address would change (architecture, decision 4).
bool can_displace(const image::Instruction& instruction);
// Emits it; false when a pc-relative operand is out of reach from there.
bool emit_displaced(Bytes& out, uint64_t address, const image::Instruction& instruction);
// Emits a conditional jump that is taken when `branch` is not, and returns its field for
// fill_branch: what stands between them runs only when the branch is taken.
size_t emit_inverted_branch(Bytes& out, uint64_t address, const image::Instruction& branch);
void fill_branch(Bytes& out, uint64_t address, size_t field);
void emit_jump(Bytes& out, uint64_t address, uint64_t target);
void emit_call(Bytes& out, uint64_t address, uint64_t target);

// Bytes of the stack that an instruction takes, when control is sure to run on from it: it reads and writes
// registers and pushes, and touches no other memory. A function's entry may as well be seen behind it.
std::optional<uint32_t> pushed_by(const image::Instruction& instruction);

// True when a call can be turned to a trampoline in its place, so that it returns to where it did.
bool can_turn(const image::Instruction& call);
// The end of such a trampoline: a jump to what was called; false when its operand is out of reach.
bool emit_turned(Bytes& out, uint64_t address, const image::Instruction& call);

}  // namespace mdl::arch
