// How many registers a snippet wants.
#pragma once

#include <cstddef>

#include "compiler/ir/ir.h"

namespace mdl::ir {

// The most temporaries that hold a value at once, in the order of the text, as linear allocation sees it.
// Those that only ever are $arg[n] or $return do not count: they are where they are.
size_t pressure(const Snippet& snippet);

}  // namespace mdl::ir
