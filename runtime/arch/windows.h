// The bytes that are written over code: jumps of several sizes, and calls in the place of calls. And the way
// back: where such bytes lead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/arch/bytes.h"
#include "runtime/image/image.h"

namespace mdl::arch {

// The contents of a window: a jump, a call in the place of a call of `size` bytes, or a short jump to another
// jump.
Bytes window_jump(uint64_t at, uint64_t target);
Bytes window_call(uint64_t at, uint32_t size, uint64_t target);
Bytes window_short_jump(uint64_t at, uint64_t target);
bool short_jump_reaches(uint64_t at, uint64_t target);

// A jump of which only the first `written` bytes are written; those behind it stay what they are and are a
// part of its displacement. Where it leads, by the bytes that may be chosen.
image::Range punned_targets(uint64_t at, uint32_t written, std::span<const uint8_t> kept);
// A jump to anywhere, for the place where a punned one leads.
Bytes far_jump(uint64_t target);

// Where a direct jump or call of Description::jump_size bytes leads; nothing for any other bytes.
std::optional<uint64_t> branch_target(uint64_t at, std::span<const std::byte> bytes);
// Where a short jump leads.
std::optional<uint64_t> short_jump_target(uint64_t at, std::span<const std::byte> bytes);
// How many bytes at the end of `before` are the prefixes that window_call writes in front of a call.
size_t call_prefixes(std::span<const std::byte> before);

}  // namespace mdl::arch
