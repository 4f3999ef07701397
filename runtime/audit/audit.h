// The auditor: admits a change of code, or refuses it.
//
// The planner (runtime/patch) is clever: it has tactics, relays, hosts and punned jumps, and it may be wrong,
// as it was about a window that began in the padding before an entry. The auditor is simple. It gets what
// will be written (edits, new code and, for each detour, which instruction stands where), it knows of no
// tactic, and it admits an edit only for reasons that it finds itself in the bytes and the files:
//
//   - control can arrive at no changed byte but the first (arrivals.h);
//   - the edit begins at an instruction of the function that it belongs to, and ends within that function or
//     its own padding (listing.h);
//   - it leads to a detour that executes each instruction which it displaces once, in order and to the same
//     effect, and comes back to the instruction behind them (detour.h);
//   - bytes that are changed and lead to no detour of their own are padding which nothing reaches.
//
// It decodes with another decoder than the planner (instruction.h). The idea is that of proof-carrying code
// (Necula, POPL 1997): the prover may be wrong, the checker must not.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/image/memory.h"

namespace mdl::audit {

// Bytes of the program that are replaced. `from` is as long as `to`.
struct Edit {
  uint64_t address = 0;
  std::span<const uint8_t> from, to;
};

// An instruction that an edit displaces.
struct Displaced {
  uint64_t original = 0;  // its address in the program
  uint64_t moved = 0;     // where a thread that was about to execute it goes on: before what was added
  uint64_t copy = 0;      // where it stands now
};

// New code that an edit leads to.
struct Detour {
  image::Range code;
  std::vector<Displaced> displaced;  // in the order of execution
};

// Memory that the proposal adds to the process.
struct Region {
  uint64_t address = 0;
  std::span<const uint8_t> bytes;
};

struct Proposal {
  std::vector<Edit> edits;      // by address
  std::vector<Detour> detours;  // by Range::start
  std::vector<Region> code;
};

struct Objection {
  size_t edit = 0;  // index into Proposal::edits
  std::string reason;
  bool is_stale = false;  // the process has changed since the proposal was made
};

// Each edit to which there is an objection, once, by index. `memory`: of the process, whose code is what it
// was.
std::vector<Objection> audit(const Proposal& proposal, const image::Image& image,
                             const image::Memory& memory);

}  // namespace mdl::audit
