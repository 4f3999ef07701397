#include "runtime/image/inlined.h"

#include <set>
#include <unordered_map>

#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/DebugInfo/DWARF/DWARFDie.h"
#include "runtime/image/image.h"

namespace mdl::image {
namespace {

using llvm::DWARFDie;
namespace dw = llvm::dwarf;

constexpr int kDeepest = 256;  // blocks and copies that a copy may lie in

bool is(const char* found, std::string_view name) {
  return found != nullptr && found == name;
}

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

// The function with code of its own around a copy; "" where there is none.
std::string holder_of(DWARFDie copy) {
  DWARFDie around = copy.getParent();
  for (int depth = 0; around && around.getTag() != dw::DW_TAG_subprogram && depth < kDeepest; ++depth)
    around = around.getParent();
  if (!around || around.getTag() != dw::DW_TAG_subprogram) return "";
  if (!around.find({dw::DW_AT_low_pc, dw::DW_AT_ranges})) return "";  // no code: it was inlined itself
  if (const char* name = around.getLinkageName()) return name;
  const char* name = around.getShortName();
  return name ? name : "";
}

}  // namespace

std::vector<std::string> find_holders(llvm::DWARFContext& context, std::string_view name) {
  const std::string bare = name.find("::") == name.npos ? "" : without_arguments(name);
  std::unordered_map<uint64_t, bool> is_wanted;  // by the place of what was inlined
  const auto wants = [&](const DWARFDie& origin) {
    const auto [known, fresh] = is_wanted.try_emplace(origin.getOffset());
    if (fresh)
      known->second = is(origin.getShortName(), name) || is(origin.getLinkageName(), name) ||
                      (!bare.empty() && without_arguments(qualified_name(origin)) == bare);
    return known->second;
  };
  std::set<std::string> holders;
  for (const auto& unit : context.compile_units()) {
    for (const llvm::DWARFDebugInfoEntry& entry : unit->dies()) {
      if (entry.getTag() != dw::DW_TAG_inlined_subroutine) continue;
      const DWARFDie copy(unit.get(), &entry);
      const DWARFDie origin = copy.getAttributeValueAsReferencedDie(dw::DW_AT_abstract_origin);
      if (origin && wants(origin)) holders.insert(holder_of(copy));
    }
  }
  holders.erase("");
  return {holders.begin(), holders.end()};
}

}  // namespace mdl::image
