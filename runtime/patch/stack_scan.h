// Conservative stack scans: any word that looks like an address counts as one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/arch/arch.h"
#include "runtime/image/image.h"
#include "runtime/image/unwind.h"

namespace mdl::patch {

// The words on a stopped thread's stack, and, when it runs on another one (an alternate
// signal stack), also those of the stack that its thread pointer or [stack] points to; and the
// places at which its frames execute, which leads over signal frames from stack to stack.
std::vector<uint64_t> stack_words(const arch::ThreadRegisters& registers,
                                  std::span<const image::Mapping> mappings, const image::Memory& memory, const image::Unwinder& unwinder);

}  // namespace mdl::patch
