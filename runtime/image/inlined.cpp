#include "runtime/image/inlined.h"

#include <algorithm>
#include <functional>
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
  std::string out(short_name(function));
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
  const char* name = holder.getLinkageName();
  return name ? name : std::string(short_name(holder));
}

// What is left out of a file has its code at 0 or 1 there (--gc-sections).
bool has_code(const DWARFDie& copy) {
  auto ranges = copy.getAddressRanges();
  if (!ranges) return llvm::consumeError(ranges.takeError()), false;
  return std::ranges::any_of(*ranges, [](const llvm::DWARFAddressRange& range) {
    return range.LowPC > 1 && range.HighPC > range.LowPC;
  });
}

struct CopySearch {
  std::function<bool(const DWARFDie& origin)> wants;  // copies of which functions
  std::function<bool(const DWARFDie& copy, const DWARFDie& holder)> counts;
};

// What each of them finds.
std::vector<std::vector<std::string>> holders_of(llvm::DWARFContext& context,
                                                 const std::vector<CopySearch>& searches) {
  std::unordered_map<uint64_t, std::vector<size_t>> wanted_by;  // by the place of what was inlined
  std::vector<std::set<std::string>> holders(searches.size());
  for (const auto& unit : context.compile_units()) {
    for (const llvm::DWARFDebugInfoEntry& entry : unit->dies()) {
      if (entry.getTag() != dw::DW_TAG_inlined_subroutine) continue;
      const DWARFDie copy(unit.get(), &entry);
      const DWARFDie origin = copy.getAttributeValueAsReferencedDie(dw::DW_AT_abstract_origin);
      if (!origin) continue;
      const auto [known, fresh] = wanted_by.try_emplace(origin.getOffset());
      for (size_t i = 0; fresh && i < searches.size(); ++i)
        if (searches[i].wants(origin)) known->second.push_back(i);
      if (known->second.empty()) continue;
      const DWARFDie holder = holder_of(copy);
      for (const size_t i : known->second)
        if (holder && searches[i].counts(copy, holder)) holders[i].insert(linkage_name(holder));
    }
  }
  std::vector<std::vector<std::string>> out;
  for (std::set<std::string>& names : holders) {
    names.erase("");
    out.emplace_back(names.begin(), names.end());
  }
  return out;
}

CopySearch copies_of(llvm::DWARFContext& context, const FunctionSymbol& symbol) {
  const DWARFDie function = function_at(context, symbol.first);
  // Where only lines were asked for, clang does not describe a function that has no copies in it, but its unit.
  const llvm::DWARFUnit* unit = function ? nullptr : context.getCompileUnitForCodeAddress(symbol.first);
  // A part that the compiler has taken out of a function, and put back, is a copy in the function itself.
  return {[=, name = symbol.second](const DWARFDie& origin) {
            return function ? are_same(origin, function)
                            : origin.getDwarfUnit() == unit && is_named(origin, name);
          },
          [=](const DWARFDie& copy, const DWARFDie& holder) { return holder != function && has_code(copy); }};
}

}  // namespace

std::vector<std::string> find_holders(llvm::DWARFContext& context, std::string_view name) {
  const std::string bare = name.find("::") == name.npos ? "" : without_arguments(name);
  const auto wants = [&](const DWARFDie& origin) {
    return is_named(origin, name) || (!bare.empty() && without_arguments(qualified_name(origin)) == bare);
  };
  return holders_of(context, {{wants, [](const DWARFDie&, const DWARFDie&) { return true; }}}).front();
}

std::vector<std::vector<std::string>> find_holders(llvm::DWARFContext& context,
                                                   const std::vector<FunctionSymbol>& functions) {
  std::vector<CopySearch> searches;
  for (const FunctionSymbol& one : functions) searches.push_back(copies_of(context, one));
  return holders_of(context, searches);
}

}  // namespace mdl::image
