// The functions by which blocks of the heap come and go, where keys are the sites that allocated them (KeyName::site).
//
// A block that one of the first gives out is known until one of the second takes it back. What gives out blocks and is
// none of the first is not known, so its blocks have no site; but what takes them back must be among the second, or a
// site would stay where another block is.
#pragma once

#include <string_view>

namespace mdl::format {

// Each returns the block: of C, and operator new of C++, which calls malloc, for its own caller. operator new[] jumps to it.
inline constexpr std::string_view kAllocators[] = {"malloc", "calloc", "realloc", "_Znwm",
                                                   "_ZnwmRKSt9nothrow_t"};
// Each has it as its first argument: of C, of C++, and of jemalloc.
inline constexpr std::string_view kReleases[] = {"free",    "realloc", "cfree",   "_ZdlPv",   "_ZdaPv",
                                                 "_ZdlPvm", "_ZdaPvm", "dallocx", "sdallocx", "rallocx"};
// Without these there is no heap to know.
inline constexpr std::string_view kHeap[] = {"malloc", "free"};

}  // namespace mdl::format
