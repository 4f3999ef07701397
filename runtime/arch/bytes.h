// Code while it is made.
#pragma once

#include <cstdint>
#include <vector>

namespace mdl::arch {

using Bytes = std::vector<uint8_t>;

}  // namespace mdl::arch
