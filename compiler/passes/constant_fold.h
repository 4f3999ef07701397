// Constant folding and copy of constants along every forward path.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: a verified snippet of the same meaning, in which an
// operand that has one known value on every path to it is that value, an operation on known
// values is a `copy`, an identity (x + 0, x * 1, ...) is a `copy`, and a jump_zero on a known
// value is a jump or gone. Instructions that this leaves unused are dead_code's to remove.
void constant_fold(ir::Snippet& snippet);

}  // namespace mdl::passes
