// One thing after the other, on as many threads as there are processors.
#pragma once

#include <cstddef>
#include <functional>

namespace mdl {

// Calls `work` once for each number below `count`, on any thread and in any order; `batch` of them are too few for a
// thread. Where threads cannot be had, fewer do it. Throws what one of the calls has thrown, when all have ended.
void in_parallel(size_t count, size_t batch, const std::function<void(size_t)>& work);

}  // namespace mdl
