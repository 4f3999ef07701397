// Registers for a snippet's temporaries.
#pragma once

#include "backend/target.h"
#include "base/result.h"

namespace mdl::backend {

// Reads of $arg and $return that come after an instruction that destroys their register
// are moved to the snippet's beginning. Same meaning; a no-op where nothing destroys any.
ir::Snippet hoist_inputs(const ir::Snippet& snippet, const Target& target);

// Pre: verified, inputs hoisted, every `arg` has a register on this target. The only error
// is that registers do not suffice: a stencil has no stack to spill to.
Result<Allocation> allocate(const Counted& snippet, const Target& target);

}  // namespace mdl::backend
