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
// the program may move them back. A library that was loaded anew has no jumps. A window keeps its place in its page.
// It takes time in proportion to the text that is looked at, since all threads stand meanwhile.
std::set<uint64_t> find_moved(std::span<const resident::PatchedWindow* const> gone,
                              std::span<const resident::PatchedFile> files,
                              std::span<const image::Mapping> mappings, const image::Memory& memory);

}  // namespace mdl::patch
