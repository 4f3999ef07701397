// Peephole optimization: the last pass, on the lines that instruction selection wrote, before they are
// assembled. `mdlc --disable-pass=peephole` leaves it out.
//
// A table of the target (Target::peepholes) says which instructions may be replaced by which. A row's `from`
// are instructions as a selector writes them, separated by "; ", with words in braces for what varies:
//
//     {a} {b} {r} ...  a register; the same letter again is the same register, different letters may be, too
//     {m}              a symbol with its addend: a cell, for the most part
//     {i}              a number;  {h} a number of 12 bits with a sign
//     {L}              the label of a branch
//
// A row applies to instructions that follow each other directly. That a register which `from` writes is
// written by `to` as well, or that nobody reads it any more, is not for the row to say: it is looked up
// (Target::shapes). That the condition flags are the same behind both is the row's to see to.
//
// Rules of all targets: a jump or a branch to what stands right behind it goes.
#pragma once

#include "backend/target.h"

namespace mdl::backend {

// `dead_at_end`: registers, by number, that hold nothing anybody wants behind the stencil.
std::vector<Line> peephole(std::vector<Line> lines, const Target& target,
                           const std::vector<bool>& dead_at_end);

// Whether a line names the register.
bool names_register(const Line& line, Register r, const Target& target);

}  // namespace mdl::backend
