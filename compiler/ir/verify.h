// The IR's invariants. Checked after lowering and after each pass in debug builds, and
// by the backend before it generates code: what it relies on is what is checked here.
#pragma once

#include "base/result.h"
#include "compiler/ir/ir.h"

namespace mdl::ir {

// Sizes of the index spaces, so that checks are bounded on any input.
inline constexpr uint32_t kMaxTemps = 1 << 14;
inline constexpr uint32_t kMaxLabels = 1 << 14;
inline constexpr uint32_t kMaxNumber = 15;  // of $arg[n] and $constraint[n]

// - operands, destination and field are what ops.def says, and in range;
// - cells have names, no two the same;
// - a label stands at most once, every jump goes to one further on;
// - a temporary is written before it is read on every path;
// - `arg` and `result` stand only at points that have them.
// The error names the snippet and the instruction.
Result<void> verify(const Snippet& snippet);

}  // namespace mdl::ir
