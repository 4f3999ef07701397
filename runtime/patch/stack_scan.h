// Conservative stack scans: any word that looks like an address counts as one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/arch/arch.h"
#include "runtime/image/image.h"

namespace mdl::patch {

// The words on a stopped thread's stack, and, when it runs on another one (an alternate
// signal stack), also those of the stack that its thread pointer or [stack] points to.
std::vector<uint64_t> stack_words(const arch::ThreadRegisters& registers,
                                  std::span<const image::Mapping> mappings, const image::Memory& memory);

}  // namespace mdl::patch
