// The functions that a function calls, of those that can be measured.
//
// Known are calls, and jumps in their place, that lead to a function's beginning directly or through one word that the
// linker keeps (image/tail_targets.h). A call through a register or a pointer of the program may lead anywhere.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/session/busiest.h"

namespace mdl::inject {

// Those for which these metrics of the plan can be measured. `foci`: /Code/OBJECT/FUNCTION each, an error where one is no
// function. BusyFunction::samples are the calls in their code.
Result<Busiest> find_callees(const std::vector<std::string>& foci, const image::Image& image,
                             const plan::Plan& plan, const std::vector<std::string>& metrics,
                             const image::Memory& memory);

}  // namespace mdl::inject
