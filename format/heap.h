// The functions by which blocks of the heap come and go, where keys are the sites that allocated them (KeyName::site).
//
// A block that one of the first gives out is known until one of the second takes it back. What gives out blocks and is
// none of the first is not known, so its blocks have no site; but what takes them back must be among the second, or a
// site would stay where another block is.
#pragma once

#include <string_view>

namespace mdl::format {

// Each returns the block: of C and jemalloc, and operator new of C++, also for aligned types, which asks for its own caller.
// A C library may have one that jumps to another one; the latter notes the block then, or nobody does.
inline constexpr std::string_view kAllocators[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "reallocf",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "mallocx",
    "rallocx",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
};
// Each returns 0 and leaves the block where its first argument says. That has to be read at the return: where it may not
// be, these blocks are not known.
inline constexpr std::string_view kFillers[] = {"posix_memalign"};
// Each has it as its first argument: of C, of jemalloc, and operator delete of C++, which may call none of the former.
inline constexpr std::string_view kReleases[] = {
    "free",
    "realloc",
    "reallocarray",
    "reallocf",
    "cfree",
    "vfree",
    "free_sized",
    "free_aligned_sized",
    "dallocx",
    "sdallocx",
    "rallocx",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};
// Without these there is no heap to know.
inline constexpr std::string_view kHeap[] = {"malloc", "free"};

}  // namespace mdl::format
