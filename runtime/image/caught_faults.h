// Whether a program goes on after faults by throwing exceptions: Ada, D, C++ with -fnon-call-exceptions. A signal
// handler throws there, and the unwinder begins at the very instruction that has faulted.
#pragma once

#include "runtime/image/frames.h"
#include "runtime/image/memory.h"

namespace mdl::image {

// True when the exception tables of the file have a place from which an exception is caught that is no call, but an
// instruction that may fault. Compilers write such places only where faults may be exceptions: without that, each
// begins and ends at a call.
bool catches_faults(const FrameTable& frames, const Memory& memory, const Budget& budget);

}  // namespace mdl::image
