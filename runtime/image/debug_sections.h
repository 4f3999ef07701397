// The sections of debug information that belong to an object: its file's, or those of the file that
// /usr/lib/debug/.build-id has for it in the process's file system. LLVM reads them (debug_info.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/elf.h"
#include "runtime/image/image.h"

namespace mdl::image {

struct DebugSection {
  std::string name;  // as LLVM has it ("debug_info")
  std::vector<char> bytes;
  uint64_t size = 0;       // of what they are, or will be when they are unpacked
  bool is_packed = false;  // compressed, with a header that says how
};
using DebugSections = std::vector<DebugSection>;
inline constexpr uint64_t kMostDebugInfo = 1ull << 30;  // what a damaged header says may be anything

// As the file has them. The error says why there are none; so it is where they are more than `most` bytes together.
Result<DebugSections> read_debug_sections(const Image& image, const Object& object,
                                          uint64_t most = kMostDebugInfo);

// The sections of one file; the error calls it `name`.
Result<DebugSections> read_debug_sections(const ElfFile& file, const std::string& name,
                                          uint64_t most = kMostDebugInfo);

// False where what they have is damaged. It is decoded by code that is not ours: in a process of its own
// (base/confined.h).
bool unpack(DebugSections& sections);

}  // namespace mdl::image
