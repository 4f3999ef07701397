// The functions that hold inlined copies of another one, as debug information has them (DW_TAG_inlined_subroutine,
// DWARF 5, section 3.3.8.2). A copy has no entry that could be counted, its holders have.
//
// Nothing of it is trusted: what leads nowhere is left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

// Of each of several inlined functions that have code of their own as well. Copies of which no code is left do not count.
using FunctionSymbol = std::pair<uint64_t, std::string>;  // where its code begins, and its name
std::vector<std::vector<std::string>> find_holders(llvm::DWARFContext& context,
                                                   const std::vector<FunctionSymbol>& functions);

}  // namespace mdl::image
