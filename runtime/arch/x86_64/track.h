// The code behind code that raises or lowers a flag whose spans are kept (format/kinds.h, "A span").
#pragma once

#include "runtime/arch/point.h"

namespace mdl::arch {

// Registers that emit_track writes besides the condition flags: rax and r10.
inline constexpr image::Registers kTrackRegisters = 1u << 0 | 1u << 10;

// Opens the span when the flag is up and it is closed, closes it when the flag is down and it is open.
void emit_track(Bytes& out, const Track& track);

// Around code that may change keys. Its counters are kept on the stack meanwhile, for the code that this
// signal handler, if it is one, has interrupted. `depth`: bytes on the stack below what it was at the site.
void emit_keys_before(Bytes& out, const Keys& keys);
// How many bytes that leaves on the stack for the code in between.
inline uint32_t pushed_for(const Keys& keys) {
  return static_cast<uint32_t>(8 * (keys.keys.size() + 1 + (keys.amount ? 1 : 0)));
}
void emit_keys_behind(Bytes& out, const Keys& keys, uint32_t depth);

}  // namespace mdl::arch
