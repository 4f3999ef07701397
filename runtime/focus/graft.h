// Functions of libraries that were loaded during a measurement: what the same requests want of them, in terms
// of the binding that is in the process.
#pragma once

#include <cstddef>
#include <set>

#include "runtime/focus/request.h"

namespace mdl::focus {

struct Graft {
  Binding binding;      // the cells and requests of the first binding; points of the wanted objects only
  size_t left_out = 0;  // pieces of code that would need cells of their own
};

// `first` is in the process, `fresh` is the same requests bound to the process as it is now. Cells have the
// same meaning where they have the same label and kind, and each of the two has as many of them. Code that
// has no such cell (for the lines of new children of a request with `*`) is left out.
Graft graft(const Binding& first, const Binding& fresh, const std::set<const image::Object*>& objects);

}  // namespace mdl::focus
