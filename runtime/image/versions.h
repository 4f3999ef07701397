// Versions of dynamic symbols (GNU symbol versioning, LSB Core "Symbol Versioning").
#pragma once

#include <string>
#include <vector>

#include "runtime/image/elf.h"

namespace mdl::image {

// For each dynamic symbol the version that its object defines it in ("GLIBC_2.14"), "" when it has none.
// Empty when the object has no versions.
std::vector<std::string> symbol_versions(const ElfFile& file);

}  // namespace mdl::image
