// Removal of what has no effect.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: a verified snippet of the same meaning without
// instructions that no path reaches, results that no path reads, jumps to the next
// instruction, and labels that no jump names.
void dead_code(ir::Snippet& snippet);

}  // namespace mdl::passes
