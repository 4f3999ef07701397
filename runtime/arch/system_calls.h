// System calls that are made in the target on our behalf, as a seccomp filter sees them. Each target has the
// numbers (runtime/arch/<target>/system_calls.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/kinds.h"

namespace mdl::arch {

// A call as it will be made. What is not known in advance (addresses, the number of a file) is kUnknown: a
// filter that looks at it cannot be asked.
struct PlannedCall {
  long number = 0;
  std::vector<uint64_t> args;
  std::string_view purpose;  // "the insertion": what cannot be done without it
};
inline constexpr uint64_t kUnknown = 0xfbfbfbfbfbfbfbfbu;

// "mmap"; "system call 77" for one that none of ours makes.
std::string call_name(long number);

// What a remote stub does around its calls.
PlannedCall signal_mask_call();
// What the injector has a thread do for an insertion and a removal; `locked`: in a process that locks its
// memory.
std::vector<PlannedCall> insertion_calls(bool follow = false, bool locked = false);
// What the resident code does by itself, in any thread: where a thread's id is not found in its memory
// (`asks_id`) it is asked for; a thread pointer that is used again, and the end of the process, need one
// each; where forks are followed (`follow`), children sleep until they are measured.
std::vector<PlannedCall> resident_calls(bool asks_id, bool follow = false);
// What a routine does at each hit; none for one that makes no call.
std::vector<PlannedCall> routine_calls(format::Routine routine);

}  // namespace mdl::arch
