// DWARF expressions as call frame information uses them (DWARF 5, section 2.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/image/frames.h"
#include "runtime/image/memory.h"

namespace mdl::image {

// The value on top of the stack at the end; `initial` is pushed first where given. Nothing when
// an operation is not one of this use, a register is unknown, or memory cannot be read.
std::optional<uint64_t> evaluate(std::span<const std::byte> expression,
                                 std::span<const std::optional<uint64_t>> registers,
                                 std::optional<uint64_t> initial, const Memory& memory);

}  // namespace mdl::image
