// The trampoline of one window: the code of its sites in front of the instructions that
// the window's jump displaced, and the jump back. One piece of code per window: blocks are
// looked up once per site, never chained (architecture, decision 2).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/arch/bytes.h"
#include "runtime/arch/point.h"
#include "runtime/arch/resident.h"
#include "runtime/patch/liveness.h"
#include "runtime/patch/site.h"

namespace mdl::patch {

// The code of each point of a function, by Site::point.
using PointPieces = std::vector<std::vector<arch::Piece>>;

struct Trampoline {
  uint64_t address = 0;
  arch::Bytes code;
  // For each displaced instruction: its own address, and where a thread that was about to
  // execute it must go on (in front of the site's code).
  std::vector<std::pair<uint64_t, uint64_t>> moved;
  std::vector<uint64_t> copies;  // of these instructions, where each stands now
  std::vector<arch::PlacedStencil> stencils;
};

struct TrampolineContext {
  const plan::Stencil* guard = nullptr;
  arch::Lookup lookup;
  uint64_t hook = 0;                        // the resident routine to call, 0 = none
  arch::Hook hooked = arch::Hook::none;     // what it is
  const arch::ArmedCalls* calls = nullptr;  // null: no call is armed
  // FunctionPlan::deferrals and ends_deferred
  const std::map<uint64_t, arch::Deferral>* deferrals = nullptr;
  bool ends_deferred = false;
  bool may_be_part = false;  // of another function, whose jumps lead to its entry
};

// The code for `address`. Its size does not depend on the address. An error when an operand of a
// displaced instruction is out of reach from there.
Result<Trampoline> build_trampoline(const Window& window, const Liveness& liveness, const PointPieces& pieces,
                                    const TrampolineContext& context, uint64_t address);

}  // namespace mdl::patch
