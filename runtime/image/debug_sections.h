// The sections of debug information that belong to an object: its file's, or those of the file that
// /usr/lib/debug/.build-id has for it in the process's file system. LLVM reads them (debug_info.cpp).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/image/elf.h"
#include "runtime/image/image.h"

namespace mdl::image {

// By the names that LLVM gives them ("debug_info"); compressed ones are not any more. The error says why
// there are none.
using DebugSections = std::vector<std::pair<std::string, std::vector<char>>>;
Result<DebugSections> read_debug_sections(const Image& image, const Object& object);

// The sections of one file; the error calls it `name`.
Result<DebugSections> read_debug_sections(const ElfFile& file, const std::string& name);

}  // namespace mdl::image
