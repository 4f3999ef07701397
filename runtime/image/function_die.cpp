#include "runtime/image/function_die.h"

#include <string>

#include "llvm/DebugInfo/DWARF/DWARFCompileUnit.h"
#include "llvm/DebugInfo/DWARF/DWARFContext.h"

namespace mdl::image {
namespace {

using llvm::DWARFDie;
namespace dw = llvm::dwarf;

std::string_view text(const char* name) {
  return name ? name : "";
}

std::string declaring_file(const DWARFDie& function) {
  return function.getDeclFile(llvm::DILineInfoSpecifier::FileLineInfoKind::RawValue);
}

// That of the source's function, not of code that was made of it: a constructor has code of several names.
DWARFDie in_source(const DWARFDie& function) {
  const DWARFDie origin = function.getAttributeValueAsReferencedDie(dw::DW_AT_abstract_origin);
  return origin ? origin : function;
}

}  // namespace

DWARFDie function_at(llvm::DWARFContext& context, uint64_t entry) {
  llvm::DWARFCompileUnit* unit = context.getCompileUnitForCodeAddress(entry);
  if (unit == nullptr) return {};
  DWARFDie die = unit->getSubroutineForAddress(entry);
  while (die && die.getTag() != dw::DW_TAG_subprogram) die = die.getParent();
  if (!die) return {};
  auto ranges = die.getAddressRanges();
  if (!ranges) return llvm::consumeError(ranges.takeError()), DWARFDie();
  for (const llvm::DWARFAddressRange& range : *ranges)
    if (range.LowPC == entry) return die;
  return {};
}

std::string_view short_name(const DWARFDie& entry) {
  return text(entry.getShortName());
}

bool is_named(const DWARFDie& function, std::string_view name) {
  return text(function.getLinkageName()) == name || short_name(function) == name;
}

bool are_same(const DWARFDie& one, const DWARFDie& other) {
  const DWARFDie first = in_source(one), second = in_source(other);
  if (first == second) return true;
  const std::string_view linkage = text(first.getLinkageName()), its = text(second.getLinkageName());
  if (!linkage.empty() && !its.empty()) return linkage == its;
  const std::string_view name = short_name(first);
  const uint64_t line = first.getDeclLine();
  return !name.empty() && line != 0 && name == short_name(second) && line == second.getDeclLine() &&
         declaring_file(first) == declaring_file(second);
}

}  // namespace mdl::image
