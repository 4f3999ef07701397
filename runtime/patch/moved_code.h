// Code of files that the program has moved elsewhere (mremap(2)), with our jumps in it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

// The addresses of those of these windows, which are not in their places, that are elsewhere in memory of their files:
// the program may move them back. Pages that are moved stay pages of the same part of their file, so each mapping of
// that part is looked at, and nothing else: a library that was loaded anew has its own code there. Breakpoints of
// others may be in a window. Nothing where there is so much to look at that all threads would stand for too long.
std::optional<std::set<uint64_t>> find_moved(std::span<const resident::PatchedWindow* const> gone,
                                             std::span<const resident::PatchedFile> files,
                                             std::span<const image::Mapping> mappings,
                                             const image::Memory& memory);

}  // namespace mdl::patch
