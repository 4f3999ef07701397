// Jumps into the middle of a function that come from outside of it.
//
// Compilers do not make them, hand-written assembly does: glibc's mempcpy jumps behind the first
// instruction of memmove, so that a jump written over that entry would be torn. Decoding all
// code of an object to find them costs seconds for a big one, so:
//
// - far jumps (32-bit displacements) are found by looking at every byte of the text for their
//   opcodes, once per object (a few ms for each 10 MB). What is no jump is taken for one now and
//   then; its random target costs a patch site in ten thousand.
// - near jumps (8-bit) come from the neighbours, which are decoded.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::image {

class FarJumps {
 public:
  // Targets inside of `range`, without its start. The object's text is scanned on the first call.
  std::vector<uint64_t> into(const Object& object, const Range& range, const Memory& memory);

 private:
  void scan(const Object& object, const Memory& memory);

  std::once_flag scanned_;
  std::vector<uint64_t> targets_;  // sorted
};

// Targets inside of `range`, without its start, of short jumps in the code on both sides.
std::vector<uint64_t> near_jumps_into(const Object& object, const Range& range, const Memory& memory);

}  // namespace mdl::image
