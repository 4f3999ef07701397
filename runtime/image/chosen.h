// Which implementation an IFUNC's resolver chose in a process.
#pragma once

#include "runtime/image/image.h"

namespace mdl::image {

// A name such as memcpy belongs to a resolver, which the loader calls once; what it returned is kept in slots
// that relocations fill: those of the object itself that name a resolver, and those by which other objects
// call it. The names of the resolver become aliases of the function that such a slot holds, so that asking
// for memcpy asks for what runs. A slot's value is used only if it is where a function of the same object
// starts. A slot that nothing has used yet (lazy binding) stays unknown.
void name_chosen_implementations(Image& image, const Memory& memory);

}  // namespace mdl::image
