// The functions that a function calls, of those that can be measured.
//
// Known are calls, and jumps in their place, that lead to a function's beginning directly or through one word that the
// linker keeps (image/tail_targets.h). A call through a register or a pointer of the program may lead anywhere.
#pragma once

#include <string>

#include "base/result.h"
#include "runtime/session/busiest.h"

namespace mdl::inject {

// `focus`: /Code/OBJECT/FUNCTION, an error where that is no function. BusyFunction::samples are the calls in its code.
Result<Busiest> find_callees(const std::string& focus, const image::Image& image, const plan::Plan& plan,
                             const image::Memory& memory);

}  // namespace mdl::inject
