// Whether the program may read the processor's counter.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "runtime/image/image.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/threads.h"

namespace mdl::process {

// A thread for which prctl(PR_SET_TSC) has forbidden it gets SIGSEGV when it reads the counter, and so does
// each thread that it starts. One thread is asked; the kernel writes the answer to the word at `scratch`,
// which is zero before and afterwards. One that seccomp does not let answer may.
Result<void> check_counter_access(pid_t pid, Threads& threads, const TargetMemory& memory,
                                  const image::Image& image, uint64_t scratch);

}  // namespace mdl::process
