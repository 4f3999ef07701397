// mdlc --cost: what each stencil is predicted to cost, as a table.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "backend/plan_writer.h"

namespace mdl::mdlc {

// One line for each stencil, of a plan that backend::predict has seen, with the sizes of its functions;
// docs/benchmarks.md explains it.
std::string cost_table(const backend::PlanText& plan, const std::map<std::string, uint64_t>& sizes);

}  // namespace mdl::mdlc
