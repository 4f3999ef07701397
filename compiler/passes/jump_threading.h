// Jumps to where they lead in the end.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: a verified snippet of the same meaning, in which no jump leads to a
// jump, or to a jump_zero that it decides, and no jump_zero leads around a jump and nothing else.
void jump_threading(ir::Snippet& snippet);

}  // namespace mdl::passes
