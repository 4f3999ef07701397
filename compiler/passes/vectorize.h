// Vectorization, the compiler's part: which requests with `*` one value can answer.
//
// Asked for N children of a resource, the injector could evaluate the metric N times, each time behind
// another guard: N pieces of code at each point, most of them skipped. The paper (section 4.4)
// replaces them by one update of an indexed cell. Where the index is a function's activity, of
// which several are true at a time, there is no one cell to update; but then the base can run once,
// without that guard, and a child's value is how much the base's grew while the child's flag was
// up. The code at the base's points does not depend on N, and the flags' code gets a few instructions.
//
// That yields the same number only when what a piece of the base adds does not depend on what
// the guard has let through before: format::Metric::additive. This pass finds out.
//
// A timer's growth while a flag is up is what a request of its own would have measured only where the timer
// is started and stopped by the very frames that raise and lower the flag, for then both run as long. So a
// timer is additive when its base does nothing but start it at entries and stop it at returns, and the
// constraints of code that it names do nothing but count frames; the injector sees to it that the functions
// are the same.
//
// Constraints whose resource is a number get a keyed form: keyed_constraints.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/program.h"

namespace mdl::passes {

// Sets Metric::additive, and what keyed_constraints() sets. Changes no code that is there.
void vectorize(Program& program);

// A reason against one value for all children, after vectorize().
struct NotVector {
  std::string_view what;  // "metric", "constraint"
  std::string name;
  std::string why;
  format::Position position;
};
// The reasons of the metrics that have constraints, and of the constraints whose resource is a number.
std::vector<NotVector> not_vectors(const Program& program);

}  // namespace mdl::passes
