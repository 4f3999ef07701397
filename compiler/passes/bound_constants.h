// Arithmetic of what is known when a request is bound.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: a verified snippet of the same meaning, in which an operation on
// constants of the request and numbers is one constant of the request, as long as its expression is small.
void bound_constants(ir::Snippet& snippet);

}  // namespace mdl::passes
