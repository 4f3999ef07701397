// Snippets made up at random, and made smaller when one of them shows a defect.
#pragma once

#include <cstdint>
#include <functional>
#include <random>

#include "compiler/ir/interpret.h"
#include "compiler/ir/ir.h"

namespace mdl::exec {

using Random = std::mt19937_64;  // the same sequence with every standard library

// A verified snippet at an entry or a return, with three cells (the last a flag).
ir::Snippet random_snippet(Random& random);

// Values for it; extremes are frequent.
ir::Machine random_machine(Random& random);

// Takes away instructions and simplifies operands as long as `fails` holds.
ir::Snippet shrink(ir::Snippet snippet, const std::function<bool(const ir::Snippet&)>& fails);

}  // namespace mdl::exec
