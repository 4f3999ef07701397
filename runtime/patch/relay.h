// Relays: jumps of full length for windows that have room for a short jump only. They lie where nothing else
// is executed, of which there are two kinds:
//
//   padding  what stands behind a return or an unconditional jump, is padding, and is the target of
//            nothing. Such a relay is written before the window that jumps there and put back after it, when
//            no thread is about to execute it.
//   a host   a window of the same function that is longer than its own jump: the instructions behind that run
//            in its trampoline. Its jump and its relays, one behind the other, are one write. They are
//            written before the windows that jump there; put back together after these, when no thread will
//            come back to a relay, and a thread that is at one has been sent on where it leads (remove.h).
//
// Code without alignment (-O0, -Os) has no padding: `call f; leave; ret` is followed by the next function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/image/code.h"
#include "runtime/patch/site.h"

namespace mdl::patch {

// Runs of bytes of the function, or behind it, that are never executed.
std::vector<image::Range> unreachable_padding(const image::Code& code);

inline constexpr uint32_t kMostRelays = 2;  // of a host; a record of the journal has 16 bytes

// The number of bytes written over a window's beginning: its jump, and the relays that it hosts.
uint64_t written_by(const Window& window);
// Where the next relay of a host would lie.
uint64_t next_relay(const Window& host);

// Takes windows away: a host not before the last that needs its relays.
void drop_windows(std::vector<Window>& windows, const std::function<bool(const Window&)>& unneeded);

// Where a relay may lie for a short jump at `from`, away from all windows; nullopt when there is no room.
std::optional<uint64_t> find_relay(std::span<const image::Range> padding, std::span<const Window> windows,
                                   uint64_t from);

// True when the window changes one of these bytes or needs it as it is: its instructions, its relay, the
// bytes that its punned jump ends with.
bool occupies(const Window& window, const image::Range& bytes);
// The same, but for bytes that are only needed as they are.
bool changes(const Window& window, const image::Range& bytes);

}  // namespace mdl::patch
