#include "runtime/image/inlined.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "llvm/DebugInfo/DWARF/DWARFCompileUnit.h"
#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/DebugInfo/DWARF/DWARFDie.h"
#include "runtime/image/function_die.h"
#include "runtime/image/image.h"

namespace mdl::image {
namespace {

using llvm::DWARFDie;
namespace dw = llvm::dwarf;

constexpr int kDeepest = 256;  // blocks and copies that a copy may lie in

// With its namespaces and classes, as "ns::f".
std::string qualified_name(const DWARFDie& function) {
  const char* own = function.getShortName();
  std::string out = own ? own : "";
  const DWARFDie declaration = function.getAttributeValueAsReferencedDie(dw::DW_AT_specification);
  DWARFDie around = (declaration ? declaration : function).getParent();
  for (int depth = 0; around && depth < kDeepest; ++depth, around = around.getParent()) {
    const bool is_scope =
        around.getTag() == dw::DW_TAG_namespace || around.getTag() == dw::DW_TAG_class_type ||
        around.getTag() == dw::DW_TAG_structure_type || around.getTag() == dw::DW_TAG_union_type;
    const char* name = around.getShortName();
    if (is_scope && name) out = std::string(name) + "::" + out;
  }
  return out;
}

// The function with code of its own around a copy; invalid where there is none.
DWARFDie holder_of(DWARFDie copy) {
  DWARFDie around = copy.getParent();
  for (int depth = 0; around && around.getTag() != dw::DW_TAG_subprogram && depth < kDeepest; ++depth)
    around = around.getParent();
  if (!around || around.getTag() != dw::DW_TAG_subprogram) return {};
  const bool has_code = around.find({dw::DW_AT_low_pc, dw::DW_AT_ranges}).has_value();
  return has_code ? around : DWARFDie();  // else it was inlined itself
}

std::string linkage_name(const DWARFDie& holder) {
  if (const char* name = holder.getLinkageName()) return name;
  const char* name = holder.getShortName();
  return name ? name : "";
}

// What is left out of a file has its code at 0 or 1 there (--gc-sections).
bool has_code(const DWARFDie& copy) {
  auto ranges = copy.getAddressRanges();
  if (!ranges) return llvm::consumeError(ranges.takeError()), false;
  return std::ranges::any_of(*ranges, [](const llvm::DWARFAddressRange& range) {
    return range.LowPC > 1 && range.HighPC > range.LowPC;
  });
}

// `wants`: copies of which functions; `counts`: a copy, and its holder.
template <typename Wants, typename Counts>
std::vector<std::string> holders_of(llvm::DWARFContext& context, const Wants& wants, const Counts& counts) {
  std::unordered_map<uint64_t, bool> is_wanted;  // by the place of what was inlined
  std::set<std::string> holders;
  for (const auto& unit : context.compile_units()) {
    for (const llvm::DWARFDebugInfoEntry& entry : unit->dies()) {
      if (entry.getTag() != dw::DW_TAG_inlined_subroutine) continue;
      const DWARFDie copy(unit.get(), &entry);
      const DWARFDie origin = copy.getAttributeValueAsReferencedDie(dw::DW_AT_abstract_origin);
      if (!origin) continue;
      const auto [known, fresh] = is_wanted.try_emplace(origin.getOffset());
      if (fresh) known->second = wants(origin);
      if (!known->second) continue;
      const DWARFDie holder = holder_of(copy);
      if (holder && counts(copy, holder)) holders.insert(linkage_name(holder));
    }
  }
  holders.erase("");
  return {holders.begin(), holders.end()};
}

}  // namespace

std::vector<std::string> find_holders(llvm::DWARFContext& context, std::string_view name) {
  const std::string bare = name.find("::") == name.npos ? "" : without_arguments(name);
  return holders_of(
      context,
      [&](const DWARFDie& origin) {
        return is_named(origin, name) || (!bare.empty() && without_arguments(qualified_name(origin)) == bare);
      },
      [](const DWARFDie&, const DWARFDie&) { return true; });
}

std::vector<std::string> find_holders(llvm::DWARFContext& context, uint64_t entry, std::string_view name) {
  const DWARFDie function = function_at(context, entry);
  // Where only lines were asked for, clang does not describe a function that has no copies in it, but its unit.
  const llvm::DWARFUnit* unit = function ? nullptr : context.getCompileUnitForCodeAddress(entry);
  // A part that the compiler has taken out of a function, and put back, is a copy in the function itself.
  return holders_of(
      context,
      [&](const DWARFDie& origin) {
        return function ? are_same(origin, function)
                        : origin.getDwarfUnit() == unit && is_named(origin, name);
      },
      [&](const DWARFDie& copy, const DWARFDie& holder) { return holder != function && has_code(copy); });
}

}  // namespace mdl::image
