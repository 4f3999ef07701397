// Calls that are armed: for code after a call at an instruction that a branch reaches, too
// (docs/events.md, "Calls").
//
// A thread's block keeps, in an area of its own, the stack of its armed calls that have not come back: for
// each the address at which its return address lies. Calls of one thread come back last in, first out,
// whatever stacks they are on, so what is found in it ends all that began later: those vanished (an
// exception, longjmp).
//   arm      pushes. The depth grows first, so that a handler in between works above what is not written yet
//   test     passes when the return address of this call lies below the stack pointer, where a return has
//            just left it, and the place is in the stack, which is cut there
//   catch_, jump   cut off what vanishes, at the entries of __cxa_begin_catch and longjmp
// r11 is the block.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arch/point.h"
#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {

// Registers that the code for this arming uses, besides r11.
image::Registers armed_registers(Arming arming);

// Emits it. `depth`: from the stack pointer to where the return address lies. Returns the fields of the
// branches that are taken when the test fails, to be filled.
std::vector<size_t> emit_arming(Emitter& e, const PointFrame& frame, uint32_t depth, int64_t anomalies);

}  // namespace mdl::arch
