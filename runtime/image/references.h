// Where the address of code may come from, apart from direct jumps and calls (incoming_jumps.h), and which
// code without a name is a part of a function.
//
// A stripped file does not say whether code that is reached by a jump is a function that is called last, or
// a part that the compiler placed elsewhere. It matters where that code may end without a return, by an
// exception or an abort: the jump to a part is no return then. Where only one function's jumps lead to such
// code, it is treated as a part, and the number of returns is right whichever of the two it is: what happens
// there happens for that function, so its own exits are the function's.
//
// The search takes too much rather than too little. Bytes that may be an operand relative to the
// pc count, every word in the object's data, every landing pad. The only cost of a false find is that the
// code stays another function.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::image {

class FunctionCode;

class References {
 public:
  // True when something may hold or form the address of `place`, or lets an exception go on there. The
  // object is scanned on the first call.
  bool has(const Image& image, const Object& object, uint64_t place, const Memory& memory);
  // Whether the object has the same in another process, where it lies at the same addresses; also where nobody has asked.
  bool are_same_in(const Image& other, const Object& object, const Memory& memory) const;

 private:
  struct Places {
    bool complete = true;         // all of the object could be read
    std::vector<uint64_t> found;  // sorted
    bool operator==(const Places&) const = default;
  };
  static Places scan(const Image& image, const Object& object, const Memory& memory, const Budget& budget);

  std::once_flag once_;
  std::atomic<bool> is_scanned_ = false;
  Places places_;
};

// True when all that leads to `range` (a piece of code that no symbol names) are direct jumps of `code`, and
// either control may end there otherwise than by a return, or the jumps lead into its middle, too.
bool is_own_part(const FunctionCode& code, const Range& range);

// True when no instruction in `range` leaves it: no return, no indirect jump, no jump out of it, and nothing
// behind its end is run.
bool never_comes_back(const FunctionCode& code, const Range& range);

}  // namespace mdl::image
