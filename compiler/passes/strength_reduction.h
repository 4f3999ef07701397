// Cheaper operations of the same result.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: a verified snippet of the same meaning, in which a multiplication by a
// power of two is a shift, a division by one is shifts and an addition that rounds toward zero, a
// constant stands right of an operation if it can, `c = c + e` is add_cell, and a comparison with what
// another one, a sum or a difference yields is a comparison of that one's operands.
void strength_reduction(ir::Snippet& snippet);

}  // namespace mdl::passes
