// Functions of which nobody reads the result, so that the register for results may hold anything at their returns.
//
// LLVM knows all callers of a function that only its own unit can call (`static`; with link-time optimization most
// of them). Where none of them uses the result, it computes none, and neither the function's name nor, before
// LLVM 16, its debug information shows that. What the register holds then is what the code before the return has
// left there: the address of a local variable, or the value that guards the stack. GCC makes a clone of another
// name (f.isra.0) instead.
//
// A result is taken for real where the function can be called from elsewhere, where something may have its address,
// or where a caller in the object reads the register before anything else is written there. A caller that returns
// with the register as it is hands the result on, which counts as far as its own result is read. Too few callers are
// seen rather than too many: a result that somebody reads may be taken for an unread one.
#pragma once

#include <cstdint>
#include <set>

#include "runtime/image/image.h"

namespace mdl::image {

// Those of `functions`, by address, all of the object.
std::set<const Function*> with_unread_results(const Image& image, const Object& object,
                                              const std::set<const Function*>& functions,
                                              const Memory& memory);

}  // namespace mdl::image
