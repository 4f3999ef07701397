// Code that names an argument, `$args.size`, once for each argument that it may be.
//
// Stencils read registers, and which register a name stands for is known only when a request is bound. So the
// code is made six times, and binding takes the one for the register that debug information gives for the
// function: it costs what $arg[n] costs.
#pragma once

#include <vector>

#include "compiler/ir/ir.h"

namespace mdl::sema {

// The variable of the placement that visits the points of such code; nobody can define one like it.
inline constexpr const char* kPointVariable = "$point";

// The place (format::ParameterFact) of the argument that lowered code names first; it must name one.
const format::Expr& first_named(const ir::Snippet& snippet);

// The code with that place replaced by $arg[0], $arg[1], ...; empty where no argument is named.
std::vector<ir::Snippet> argument_variants(const ir::Snippet& snippet);

}  // namespace mdl::sema
