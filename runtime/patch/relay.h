// Relays: jumps of full length in padding, for windows that have room for a short jump only.
//
// Padding is what stands behind a return or an unconditional jump, is nops or int3, and is the target of
// nothing. A relay is written before the window that jumps there and put back after it, when no thread is
// about to execute it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/image/code.h"
#include "runtime/patch/site.h"

namespace mdl::patch {

// Runs of bytes of the function, or behind it, that are never executed.
std::vector<image::Range> unreachable_padding(const image::Code& code);

// Where a relay may lie for a short jump at `from`, away from all windows; nullopt when there is no room.
std::optional<uint64_t> find_relay(std::span<const image::Range> padding, std::span<const Window> windows,
                                   uint64_t from);

// True when the window changes one of these bytes or needs it as it is: its instructions, its relay, the
// bytes that its punned jump ends with.
bool occupies(const Window& window, const image::Range& bytes);
// The same, but for bytes that are only needed as they are.
bool changes(const Window& window, const image::Range& bytes);

}  // namespace mdl::patch
