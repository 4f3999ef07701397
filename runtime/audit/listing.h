// The code of an object, function by function: where functions lie, and which instructions they consist of
// when each is decoded from its beginning on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/audit/instruction.h"
#include "runtime/image/image.h"

namespace mdl::audit {

// The code around an address that a symbol or a frame descriptor says is one piece: from the nearest
// beginning at or before it to the nearest end. Nothing where neither says that code is there.
std::optional<image::Range> piece_around(const image::Object& object, uint64_t address);
// The last piece that begins before an address.
std::optional<image::Range> piece_before(const image::Object& object, uint64_t address);
// The piece around an address, or what lies between two pieces: padding, start-up code, tables.
image::Range piece_or_gap(const image::Object& object, uint64_t address);

// The instructions of a piece. Where bytes are no instruction the next byte is tried; the listing then has a
// gap.
std::vector<Instruction> list_instructions(const image::Range& piece, const image::Memory& memory);

}  // namespace mdl::audit
