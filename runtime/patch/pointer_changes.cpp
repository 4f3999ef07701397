#include "runtime/patch/pointer_changes.h"

#include <map>

#include "runtime/arch/code_search.h"
#include "runtime/patch/find_in_code.h"

namespace mdl::patch {

std::vector<bool> with_changed_pointer(const std::vector<FunctionPlan>& functions,
                                       const image::Memory& memory) {
  std::map<const image::Object*, bool> known;
  std::vector<bool> out;
  for (const FunctionPlan& f : functions) {
    const auto [slot, fresh] = known.try_emplace(f.object, false);
    if (fresh)
      slot->second =
          find_in_code(*f.object, memory, arch::kMostOfPointerChange, arch::find_pointer_change) != 0;
    out.push_back(slot->second);
  }
  return out;
}

}  // namespace mdl::patch
