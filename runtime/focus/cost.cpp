#include "runtime/focus/cost.h"

#include <cmath>
#include <set>

namespace mdl::focus {
namespace {

// The jumps and the search for the thread's block: what bench/run measures for a counter at an entry, less
// the counter's own addition. A guard is a comparison with memory and a branch.
constexpr double kSiteCycles = 1.5, kGuardCycles = 0.5;
// What a descriptor is open for, a readlink(2).
constexpr uint32_t kDescriptorNanoseconds = 3500;

}  // namespace

uint64_t predicted_ps(const plan::Plan& plan, std::span<const BoundSnippet> snippets, double ps_per_cycle) {
  double cycles = kSiteCycles;
  uint64_t routines_ps = 0;
  std::set<CellId> guards;  // those in a row are tested once
  for (const BoundSnippet& snippet : snippets) {
    const plan::StencilCost& cost = plan.stencils[snippet.stencil].cost;
    cycles += static_cast<double>(cost.cycles) / 100;
    routines_ps += cost.routine_ns * 1000;
    for (const format::KeyName text : snippet.texts)
      routines_ps +=
          1000 * uint64_t{format::is_descriptor(text) ? kDescriptorNanoseconds
                                                      : format::info(format::Routine::read).nanoseconds};
    guards.insert(snippet.guards.begin(), snippet.guards.end());
  }
  cycles += kGuardCycles * static_cast<double>(guards.size());
  return static_cast<uint64_t>(std::llround(cycles * ps_per_cycle)) + routines_ps;
}

}  // namespace mdl::focus
