// Code of files that the program has moved elsewhere (mremap(2)), with our jumps in it.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

// The addresses of those of these windows, which are not in their places, that are elsewhere in memory of their files:
// the program may move them back. Pages move as they are: a window keeps its place in its page, beside the others of
// that page. A library that was loaded anew has no jumps of ours, but the few bytes of a short one may be its own: a
// short window counts where all windows of its page are. In the first byte of one there may be a breakpoint.
// It takes time in proportion to the text that is looked at, since all threads stand meanwhile.
std::set<uint64_t> find_moved(std::span<const resident::PatchedWindow* const> gone,
                              std::span<const resident::PatchedFile> files,
                              std::span<const image::Mapping> mappings, const image::Memory& memory);

}  // namespace mdl::patch
