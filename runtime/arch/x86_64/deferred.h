// Cells that wait at a tail jump, and their end at a return (docs/events.md, "Tail calls"). Resident code
// keeps the list (resident_deferred.inc); the code of a point calls it when it must.
#pragma once

#include "runtime/arch/point.h"
#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {

uint64_t defer_offset();         // in the resident code, of what puts a cell on the list,
uint64_t end_deferred_offset();  // and of what lowers the cells that wait for a return

// In front of a piece: branches over it when it waits; its field is to be filled, and those of `run` lead to
// the piece. r10 and the flags are lost. `depth`: from the stack pointer to where the frame's return address
// lies. `resident`: where the resident code lies.
struct Waiting {
  size_t behind;            // the branch past the piece
  std::vector<size_t> run;  // branches to it
};
Waiting emit_defer(Emitter& e, const Piece& piece, const Deferral& deferral, uint32_t depth,
                   uint64_t resident, int64_t anomalies);

// For code under a guard, behind a piece at the same point that would have lowered it in the outermost frame:
// the branch that is taken when this is that frame. The guard is up.
size_t emit_is_outermost(Emitter& e, const Raised& guard, uint32_t depth);

// At a return.
void emit_end_deferred(Emitter& e, uint32_t depth, uint64_t resident);

}  // namespace mdl::arch
