// Prediction of what a stencil costs, by the pipeline simulator of LLVM (the library of llvm-mca).
// docs/benchmarks.md says what is predicted and how it compares with measurement.
#pragma once

#include <string_view>

#include "backend/plan_writer.h"

namespace mdl::backend {

// Fills Manifest::cpu and each stencil's cycles and number of instructions on the longest path. A CPU
// of which LLVM has no model is predicted as the target's default one, and that is the name it gets.
Result<void> predict(PlanText& plan, const Target& target, std::string_view cpu);

}  // namespace mdl::backend
