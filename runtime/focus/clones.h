// Functions that a compiler has made of others: `f.constprop.0`, `f.isra.0`, `f.part.0`. Calls in the source go to
// them instead of to `f`, so a count of `f` alone is less than somebody who reads the source expects. They are not
// counted with it, since a part is called by `f` itself and arguments may have moved; that they are there is said.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/focus/names.h"
#include "runtime/focus/request.h"

namespace mdl::focus {

// "f" for "f.constprop.0.isra.0", "" where the name is no such function's. "f.cold" is a part of `f` and is counted
// with it.
std::string_view cloned_from(std::string_view name);

// Those that code is laid in nowhere, though it is in the function that they were made of, or a pattern that the
// binding looked for fits that function's name.
std::vector<const image::Function*> clones_left_out(const Binding& binding, const Names& names);

}  // namespace mdl::focus
