// Free address space in the target: where islands of trampolines and the data go.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::patch {

inline constexpr uint64_t kApart = 0x10000;  // stacks grow, guards stay guards

// A gap of `size` bytes (whole pages) that no mapping touches, every byte of which is within
// `reach` of every byte of `near`. Gaps below are preferred, nearest first: above a
// program lies its heap, which grows upwards (brk). `taken` are ranges chosen already; `apart` is how
// many bytes are kept free on both sides.
std::optional<uint64_t> find_gap(std::span<const image::Mapping> mappings,
                                 std::span<const image::Range> taken, const image::Range& near, uint64_t size,
                                 uint64_t reach, uint64_t apart = kApart);

// All of the address space where single pages may be put: away from mappings, from where the heap and stacks
// grow. By address.
std::vector<image::Range> free_gaps(std::span<const image::Mapping> mappings);

}  // namespace mdl::patch
