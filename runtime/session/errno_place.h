// Where the threads of a process have their errno, for code that asks for it.
#pragma once

#include "base/result.h"
#include "runtime/image/image.h"

namespace mdl::inject {

// An offset from the thread pointer; an error, with the reason, where it is not known for sure.
Result<int64_t> errno_place(const image::Image& image, const image::Memory& memory);

}  // namespace mdl::inject
