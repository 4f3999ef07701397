// Classic BPF as seccomp filters are written in it, evaluated here, so that it is known what a filter says of
// a system call before the call is made (seccomp(2), "Filters"; the instructions that the kernel admits are
// those of seccomp_check_filter, kernel/seccomp.c).
//
// A filter sees 64 bytes: number, architecture, instruction pointer and six arguments. Some of that is not
// known in advance, such as the number of a file that is yet to be opened; so the evaluation also says which
// words the filter has looked at.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstdint>
#include <optional>
#include <span>

namespace mdl::process {

struct Ruling {
  uint32_t value = 0;      // what the filter returned: SECCOMP_RET_* and data
  uint16_t looked_at = 0;  // bit i: the i-th 32-bit word of seccomp_data was loaded on the way
};

// Nothing when this is no filter that the kernel would run. Jumps only go forward, so it ends.
std::optional<Ruling> evaluate(std::span<const sock_filter> filter, const seccomp_data& call);

// Whether `a` is the stricter action: of several filters on one thread the strictest ruling holds.
bool is_stricter(uint32_t a, uint32_t b);

}  // namespace mdl::process
