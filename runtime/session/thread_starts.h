// Where the threads of a process started, for $start.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/process/target_memory.h"

namespace mdl::inject {

// Stops the threads for a moment and walks their stacks. The outermost frame of a thread is that of clone,
// the one below it the C library's, the next is of the function that pthread_create was given: an address in
// it. Threads whose stack cannot be walked to its end are left out. The first one starts at main, which is
// found where the program's entry point names it, so that it need not have a symbol. Threads whose stacks
// cannot be walked in `max_pause`, all together, are left out, too.
std::vector<uint64_t> thread_starts(const image::Image& image, const process::TargetMemory& memory,
                                    std::chrono::milliseconds max_pause);

}  // namespace mdl::inject
