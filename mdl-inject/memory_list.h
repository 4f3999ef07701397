// --list PID /Memory: what a focus below /Memory may name.
#pragma once

#include "mdl-inject/options.h"

namespace mdl::inject {

inline constexpr std::string_view kMemory = "/Memory";

int list_memory(const Options& options);

}  // namespace mdl::inject
