// The cost of a stencil of x86_64, computed from its decoded code. The plan's own prediction is finer (mdlc
// simulates a pipeline), and nothing keeps an enemy's plan from saying 0: a stencil counts for the larger of
// the two.
#pragma once

#include <span>

#include "runtime/arch/x86_64/stencil_decode.h"

namespace mdl::plan::x86_64 {

// What the dearest path takes. Code that fits into a processor's window is taken to run at the best rate that
// a processor has; of longer code each instruction is taken to wait for the one before it, because code can be
// written that way.
StencilCost cost_of(const Stencil& stencil, std::span<const Decoded> code);

}  // namespace mdl::plan::x86_64
