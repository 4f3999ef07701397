// Versions of dynamic symbols (GNU symbol versioning, LSB Core "Symbol Versioning").
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/image/elf.h"

namespace mdl::image {

struct SymbolVersions {
  SymbolVersions() = default;
  SymbolVersions(SymbolVersions&&) = default;
  SymbolVersions(const SymbolVersions&) = delete;  // `each` refers into `names`

  std::map<uint16_t, std::string> names;
  // For each dynamic symbol the version that its object defines it in ("GLIBC_2.14"), "" when it has none. Empty when
  // the object has no versions.
  std::vector<std::string_view> each;
};

SymbolVersions symbol_versions(const ElfFile& file);

}  // namespace mdl::image
