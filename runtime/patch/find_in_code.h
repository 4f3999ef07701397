#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/image/image.h"
#include "runtime/image/memory.h"

namespace mdl::patch {

// Where `find` has found something in the code of an object that is of interest; 0: nowhere. It is given pieces that
// overlap by `most` bytes.
uint64_t find_in_code(const image::Object& object, const image::Memory& memory, size_t most,
                      llvm::function_ref<uint64_t(std::span<const std::byte> bytes, uint64_t start)> find);

}  // namespace mdl::patch
