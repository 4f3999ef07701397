// Code that reads `$arg[n]` or `$return` without a conversion, in two forms.
//
// A register has 64 bits, an `int` in it 32: the others are undefined. The type is known, from debug
// information, only when a request is bound. Lowering extends each such value by bound constants, its mask
// and its sign bit; so that values of 64 bits cost nothing, the code is made once more without that, and
// binding takes this one where all values of the code fill their registers, or their types are not known.
#pragma once

#include <vector>

#include "compiler/ir/ir.h"

namespace mdl::sema {

// The masks (format::ParameterFact) of the values that lowered code extends; none where it converts them all.
std::vector<format::Expr> value_masks(const ir::Snippet& snippet);

// The code for values that fill their registers.
ir::Snippet without_extension(const ir::Snippet& snippet);

}  // namespace mdl::sema
