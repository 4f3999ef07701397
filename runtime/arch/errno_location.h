// Where a C library keeps errno, as its function __errno_location computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mdl::arch {

// An offset from the thread pointer: this number, or what the process has at this address.
struct ErrnoLocation {
  int64_t offset = 0;
  uint64_t slot = 0;  // 0: it is the number
};
inline constexpr size_t kMostOfErrnoLocation = 24;  // bytes of code

// Of the code of that function, which begins at `address`. Nothing when it computes it in another way than glibc's.
std::optional<ErrnoLocation> errno_location(std::span<const std::byte> code, uint64_t address);

}  // namespace mdl::arch
