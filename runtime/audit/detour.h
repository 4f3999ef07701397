// Whether a detour does what it displaces.
//
// A detour is one run of code: what was added before the first displaced instruction, that instruction's
// copy, what was added before the second, and so on; behind the last one, where control goes on, a jump back;
// then parts of what was added that are seldom executed. Each stretch that was added keeps to itself: its
// jumps end in it, at the copy behind it, or in a seldom executed part which comes back to it. So each copy
// is executed once, in order. That the added code keeps registers and flags is not looked at here: stencils
// are verified (plan/verify.h).
#pragma once

#include <span>
#include <string>

#include "runtime/audit/audit.h"
#include "runtime/audit/instruction.h"

namespace mdl::audit {

struct DetourInput {
  const Detour& detour;
  std::span<const std::byte> code;         // of the detour
  std::span<const Instruction> originals;  // as many as the detour displaces, from the edit on
  bool is_called = false;                  // the edit is a call in the place of the only original, a call
};

// "" when it does; else why not.
std::string objection_to(const DetourInput& input);

}  // namespace mdl::audit
