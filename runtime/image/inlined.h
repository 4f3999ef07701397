// The functions that hold inlined copies of another one, as debug information has them (DW_TAG_inlined_subroutine,
// DWARF 5, section 3.3.8.2). A copy has no entry that could be counted, its holders have.
//
// Nothing of it is trusted: what leads nowhere is left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llvm {
class DWARFContext;
}  // namespace llvm

namespace mdl::image {

// Names of functions with code of their own, each once, sorted: linkage names where they have one. Every unit is read,
// which takes a second for some 100 MB of debug information.

// `name` is the inlined function's in the source, with or without its namespaces and template arguments, or its linkage
// name.
std::vector<std::string> find_holders(llvm::DWARFContext& context, std::string_view name);

// The inlined function, whose symbol is `name`, has code of its own as well, which begins at `entry`. Copies of which no
// code is left do not count.
std::vector<std::string> find_holders(llvm::DWARFContext& context, uint64_t entry, std::string_view name);

}  // namespace mdl::image
