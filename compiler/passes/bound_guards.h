// Conditions that are known when a request is bound, moved to where code is placed.
#pragma once

#include "compiler/program.h"

namespace mdl::passes {

// Pre: verified snippets, each placed at most once. Post: a program of the same meaning, in which no
// snippet begins with a jump to its end that a constant of the request decides: its placement stands under an
// `if` instead, so that the code is at the point only where it runs, and without the condition.
void bound_guards(Program& program);

}  // namespace mdl::passes
