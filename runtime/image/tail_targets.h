// Where a function goes on that ends with a jump: a tail call, seen from the jump.
//
// Known is a function's beginning to which the jump leads directly, or through one word that the linker
// keeps: a slot of the linkage table (`jmp f@plt`), or a word that the program cannot write (`jmp
// *f@GOT(%rip)` of -fno-plt). What such a word holds is read now; who relies on it compares the word again at
// each jump. A slot of the linkage table that nothing has used yet leads to the dynamic linker: not known.
// Neither is a jump through a register or a pointer of the program.
#pragma once

#include <string>

#include "runtime/image/code.h"
#include "runtime/image/image.h"

namespace mdl::image {

struct TailTarget {
  const Object* object = nullptr;
  const Function* function = nullptr;  // null: not known, and why
  std::string obstacle;
  uint64_t slot = 0;   // the word that the jump goes through, 0 = none
  uint64_t value = 0;  // and what it holds
};

// `jump`: the instruction of a way out that is a jump.
TailTarget tail_target(const Image& image, const Object& object, const Instruction& jump,
                       const Memory& memory);

}  // namespace mdl::image
