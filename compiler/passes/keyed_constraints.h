// Constraints whose resource is a number that code compares: a message's tag, a block of memory.
//
//   if ($arg[1] == $constraint[0]) tag = 1;     asked for N tags, is N comparisons.
//
// Turned around it is one: the value that is compared is the key of the resource that becomes active. So
// each snippet of such a constraint gets a keyed form, which instead of changing a flag leaves in two
// counters which key is meant and what happens to it (format::KeyChange); the injector's resident code does
// it. The index function, the paper's map from an address to a memory block or any other, is the expression
// that is compared with $constraint[0].
//
// The form that is recognized: each snippet changes the flag once, by `= 1`, `+= 1`, `-= 1` or `= 0`, on one
// branch of at most one comparison `E == $constraint[0]`. A raise must stand behind the comparison; a
// lowering without it is meant for every active key. Lowering may ask whether the flag is above 0: only
// active keys are lowered. Where the code goes must not depend on the key. All else is left, with the reason.
#pragma once

#include "compiler/program.h"

namespace mdl::passes {

// Sets Constraint::keyed or not_keyed of constraints whose path ends in `*`, but for those of code, and
// appends the snippets that the keyed form needs.
void keyed_constraints(Program& program);

}  // namespace mdl::passes
