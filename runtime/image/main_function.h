// `main` of a program, whatever its symbol says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/image/image.h"
#include "runtime/image/memory.h"

namespace mdl::image {

// Its address, as the program's entry point hands it to __libc_start_main: in the register of the first
// argument, at the first call there. Nothing when the entry point does something else, as that of another C
// library may.
std::optional<uint64_t> find_main(const Image& image, const Memory& memory);

// The same of code that is read already: the bytes at the entry point.
std::optional<uint64_t> main_from_entry(std::span<const std::byte> code, uint64_t entry,
                                        const Memory& memory);

}  // namespace mdl::image
