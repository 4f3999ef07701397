// Snippets made up at random, and made smaller when one of them shows a defect.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "compiler/ir/ir.h"
#include "tests/exec/world.h"

namespace mdl::exec {

using Random = std::mt19937_64;  // the same sequence with every standard library

// What a snippet may do: compute with what the machine holds, or also reach outside of it: timers,
// variables, memory, calls.
enum class Reach : uint8_t { machine, world };

// A verified snippet at an entry or a return, with two counters and a flag; one that reaches outside also
// has three timers, an event counter, a call, a histogram and entries. Its constants are selected[0] and selected[1].
ir::Snippet random_snippet(Random& random, Reach reach = Reach::machine);
inline constexpr size_t kMachineCells = 3, kWorldCells = 10;

// The constants of a snippet, which passes may have added to, where selected[n] is `selected`'s.
std::vector<int64_t> bound(const std::vector<format::Expr>& constants, const std::vector<int64_t>& selected);

// Values for it; extremes are frequent.
ir::Machine random_machine(Random& random);
Inputs random_inputs(Random& random, const ir::Snippet& snippet);

// Takes away instructions and simplifies operands as long as `fails` holds.
ir::Snippet shrink(ir::Snippet snippet, const std::function<bool(const ir::Snippet&)>& fails);

}  // namespace mdl::exec
