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

// A call as it will be made. A value that is not known in advance (an address, the number of a file) is
// kUnknown: a filter that looks at it cannot be asked.
struct PlannedCall {
  long number = 0;
  std::vector<uint64_t> args;
  std::string_view purpose;  // "the insertion": what cannot be done without it
};
inline constexpr uint64_t kUnknown = 0xfbfbfbfbfbfbfbfbu;

// "mmap"; "system call 77" for one that none of ours makes.
std::string call_name(long number);

// The call that a remote stub makes around its calls.
PlannedCall signal_mask_call();
// The calls that the injector has a thread make for an insertion and a removal; `locked`: in a process that
// locks its memory.
std::vector<PlannedCall> insertion_calls(bool follow = false, bool locked = false);
// The calls that the resident code makes by itself, in any thread: where a thread's id is not found in its
// memory (`asks_id`) it is asked for; a thread pointer that is used again, and the end of the process, need
// one each; where forks are followed (`follow`), children sleep until they are measured.
std::vector<PlannedCall> resident_calls(bool asks_id, bool follow = false);
// The calls that a routine makes at each hit; none for one that makes no call.
std::vector<PlannedCall> routine_calls(format::Routine routine);
// Those for what a descriptor is open for (format::is_descriptor).
std::vector<PlannedCall> descriptor_calls();

}  // namespace mdl::arch
