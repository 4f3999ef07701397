// One computation of what is computed again.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: a verified snippet of the same meaning, in which an operation whose
// result a temporary still holds, on every path to it, is a `copy` of that temporary: reads of $arg, of
// constants, of variables, of cells, and arithmetic; a load of a cell behind a store to it is a copy of
// what was stored. Left as it was where that would take too many registers.
void common_subexpressions(ir::Snippet& snippet);

}  // namespace mdl::passes
