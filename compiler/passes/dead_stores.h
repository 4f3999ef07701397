// Removal of writes to cells that nobody sees.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: a verified snippet of the same meaning without stores and additions to
// a cell that every path overwrites before the cell is read, or may be read by the application, and
// without stores of what the cell holds.
void dead_stores(ir::Snippet& snippet);

}  // namespace mdl::passes
