#include "runtime/patch/tail_callers.h"

#include <iterator>
#include <vector>

namespace mdl::patch {

TailCallers::TailCallers(std::span<const FunctionPlan> functions) {
  std::map<const image::Function*, const FunctionPlan*> plans;
  for (const FunctionPlan& f : functions) plans[f.function] = &f;
  for (const FunctionPlan& f : functions) {
    if (!f.deferrals.empty()) waiting_.insert(f.function->address);
    for (const image::Function* target : f.tail_targets)
      if (auto it = plans.find(target); it != plans.end()) before_.emplace(it->second, &f);
  }
  for (const auto& [target, caller] : before_)
    for (const image::Range& range : target->code->ranges) code_[range.start] = {range, target};
}

const FunctionPlan* TailCallers::target_at(uint64_t address) const {
  const auto after = code_.upper_bound(address);
  if (after == code_.begin()) return nullptr;
  const auto& [range, target] = std::prev(after)->second;
  return range.contains(address) ? target : nullptr;
}

const FunctionPlan* TailCallers::caller_of(const FunctionPlan* target, std::optional<uint64_t> called) const {
  if (called && !waiting_.contains(*called)) return nullptr;
  std::set<const FunctionPlan*> known = {target};
  std::vector<const FunctionPlan*> work = {target};
  while (!work.empty()) {
    auto [it, end] = before_.equal_range(work.back());
    work.pop_back();
    for (; it != end; ++it) {
      const FunctionPlan* f = it->second;
      if (!f->deferrals.empty() && (!called || f->function->address == *called)) return f;
      if (known.insert(f).second) work.push_back(f);
    }
  }
  return nullptr;
}

}  // namespace mdl::patch
