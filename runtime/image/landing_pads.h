// The landing pads of a function: where the C++ runtime (or any other that uses the Itanium
// exception tables) resumes after an exception.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/image/code.h"
#include "runtime/image/frames.h"

namespace mdl::image {

// The pads that the language-specific data of `entry` lists, nothing when it has none. False
// when the data cannot be read or is malformed, or when `budget` is spent.
bool read_landing_pads(const FrameTable& table, const Fde& entry, const Memory& memory,
                       std::vector<LandingPad>& pads, const Budget& budget);

}  // namespace mdl::image
