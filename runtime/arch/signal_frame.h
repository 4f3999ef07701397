// The kernel's frame on the stack of a thread that executes a signal handler.
#pragma once

#include <cstdint>

#include "runtime/image/frames.h"
#include "runtime/image/memory.h"

namespace mdl::arch {

// True for the code that a handler returns to, as glibc and musl have it: the call of rt_sigreturn.
bool is_signal_return(const image::Memory& memory, uint64_t pc);
// The registers that this call restores, from the frame at the stack pointer. False when it cannot be read;
// `values` are then what they were.
bool restore_signal_context(const image::Memory& memory, image::FrameValues& values);

}  // namespace mdl::arch
