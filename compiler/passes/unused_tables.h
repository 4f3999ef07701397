// Removal of what code no longer names.
#pragma once

#include "compiler/ir/ir.h"

namespace mdl::passes {

// Pre: a verified snippet. Post: the same without cells, constants and symbols that no instruction names, so
// that the injector looks for none of them.
void unused_tables(ir::Snippet& snippet);

}  // namespace mdl::passes
