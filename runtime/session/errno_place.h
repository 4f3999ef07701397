// Where the threads of a process have their errno, for code that asks for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "format/kinds.h"
#include "runtime/image/image.h"
#include "runtime/plan/plan.h"

namespace mdl::inject {

// An offset from the thread pointer, for this plan's code; 0 where none of it asks, or where the place is not known for
// sure: then that is denied, for the reason that is noted.
int64_t errno_for(const plan::Plan& plan, const image::Image& image, const image::Memory& memory,
                  std::map<format::Routine, std::string>& denied);

}  // namespace mdl::inject
