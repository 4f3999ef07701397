// Branches go forward only, so one walk from the end sees every path. The walk is done twice: for the best
// rate, where calls of routines count with their time, and for a chain of instructions that wait for each
// other. The numbers are the lowest of the processors in uops.info's tables from Skylake and Zen 2 on, except
// for a chain through memory: some processors forward a store at once, most take four cycles, and so it is
// counted. docs/benchmarks.md has the measured costs of routines.
#include "runtime/arch/x86_64/stencil_cost.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace mdl::plan::x86_64 {
namespace {

struct Weight {
  uint32_t rate;     // hundredths of a cycle, when nothing is waited for
  uint32_t latency;  // likewise, until the next instruction has the result
};

constexpr Weight kPlain = {15, 100}, kLoad = {33, 400}, kStore = {50, 100}, kUpdate = {50, 500},
                 kMultiply = {100, 300}, kDivide = {700, 1000}, kCounter = {2000, 2000},
                 kLocked = {1500, 1800},  // an exchange with memory locks it
    kCall = {200, 200};

// What a processor can still do beside a stencil's chain of instructions: some 250 cycles, as its window of
// 500 instructions takes at two a cycle.
constexpr uint64_t kHidden = 25'000;
// To compare paths, at 3 GHz.
constexpr uint64_t kHundredthsPerNs = 300;

Weight weight_of(const Decoded& d) {
  if (d.effect == Effect::call) return kCall;
  if (d.effect == Effect::divide) return kDivide;
  if (d.name == "RDTSC") return kCounter;
  if (d.name == "XCHG64rm") return kLocked;
  if (d.name.starts_with("IMUL")) return d.access == Access::load ? Weight{100, 700} : kMultiply;
  switch (d.access) {
    case Access::load:
      return kLoad;
    case Access::store:
      return kStore;
    case Access::update:
      return kUpdate;
    case Access::none:
      break;
  }
  return kPlain;
}

uint32_t routine_ns(const Stencil& stencil, const Decoded& d) {
  if (d.effect != Effect::call) return 0;
  const auto hole = d.holes.find(0);
  if (hole == d.holes.end()) return 0;
  return format::info(static_cast<format::Routine>(stencil.holes[hole->second].index)).nanoseconds;
}

// Where the code goes on from here: the next instruction, the branch's target, or both. Past the end: the end.
struct Successors {
  size_t next, taken;
};
Successors successors(std::span<const Decoded> code, size_t at) {
  const Decoded& d = code[at];
  if (d.flow == Flow::next) return {at + 1, at + 1};
  size_t taken = code.size();
  if (!d.holes.contains(0)) {
    const uint64_t target = d.offset + d.size + static_cast<uint64_t>(d.operands[0].value);
    taken = static_cast<size_t>(std::ranges::lower_bound(code, target, {}, &Decoded::offset) - code.begin());
  }
  return {d.flow == Flow::jump ? taken : at + 1, taken};
}

uint64_t rank(const StencilCost& cost) {
  return cost.cycles + cost.routine_ns * kHundredthsPerNs;
}

}  // namespace

StencilCost cost_of(const Stencil& stencil, std::span<const Decoded> code) {
  std::vector<StencilCost> rates(code.size() + 1);
  std::vector<uint64_t> chains(code.size() + 1);
  for (size_t at = code.size(); at-- > 0;) {
    const Weight weight = weight_of(code[at]);
    const auto [next, taken] = successors(code, at);
    rates[at] = rank(rates[taken]) > rank(rates[next]) ? rates[taken] : rates[next];
    rates[at].cycles += weight.rate;
    rates[at].routine_ns += routine_ns(stencil, code[at]);
    chains[at] = std::max(chains[next], chains[taken]) + weight.latency;
  }
  StencilCost out = rates[0];
  out.cycles = std::max(out.cycles, chains[0] - std::min(chains[0], kHidden));
  return out;
}

}  // namespace mdl::plan::x86_64
