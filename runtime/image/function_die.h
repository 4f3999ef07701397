// The entries of debug information (DIEs) that describe functions.
//
// Nothing of them is trusted: what leads nowhere is an invalid entry.
#pragma once

#include <cstdint>
#include <string_view>

#include "llvm/DebugInfo/DWARF/DWARFDie.h"

namespace llvm {
class DWARFContext;
}  // namespace llvm

namespace mdl::image {

// The function whose code begins at an address of the file.
llvm::DWARFDie function_at(llvm::DWARFContext& context, uint64_t entry);

// The name in the source, "" where it has none; of other entries, too.
std::string_view short_name(const llvm::DWARFDie& entry);

// Whether the source has this name for it, with or without what C++ adds. It has not for a clone (f.constprop.0).
bool is_named(const llvm::DWARFDie& function, std::string_view name);

// Whether both are one function of the source. Each unit that includes a header describes its functions anew.
bool are_same(const llvm::DWARFDie& one, const llvm::DWARFDie& other);

}  // namespace mdl::image
