// Walking the stack of a stopped thread by call frame information (.eh_frame), for
// frames that were active before the insertion (decision 5 of the architecture).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/frames.h"
#include "runtime/image/image.h"

namespace mdl::image {

struct Frame {
  uint64_t pc = 0;       // where the frame executes, or its return address
  uint64_t cfa = 0;      // the caller's stack pointer after the return: identifies the frame
  bool is_call = false;  // pc is a return address (look up pc - 1)
};

// Where the stack pointer was at the first instruction of the frame's function. On machines whose calls push
// it, the return address lies there. Trampolines tell frames apart by it (arch::PointFrame::distance).
uint64_t place_of(const Frame& frame);

struct Stack {
  std::vector<Frame> frames;  // innermost first
  bool complete = false;      // reached the outermost frame (no FDE beyond _start or clone, or undefined pc)
  std::string doubt;          // why not, when it did not
};

// The .eh_frame of every object of an image; the tables came with it, a walk parses nothing.
class Unwinder {
 public:
  // `unknown`: places, sorted, at which code was changed so that its frames are not as the tables say. A walk
  // ends in doubt at a frame that executes there.
  explicit Unwinder(const Image& image, std::vector<uint64_t> unknown = {});
  ~Unwinder();
  Unwinder(Unwinder&&) noexcept;

  // At most `limit` frames. `registers`: general registers, and the pc (Description::Frames).
  // Signal frames are crossed.
  Stack walk(const RegisterFile& registers, const Memory& memory, size_t limit = 10'000'000) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mdl::image
