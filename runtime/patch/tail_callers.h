// Which functions end in which code by tail calls that something waits for (tail_calls.h): a function that was left
// so before the attach is on no stack, though the call that it ended in is its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "runtime/patch/coverage.h"

namespace mdl::patch {

class TailCallers {
 public:
  // As decided (TailCalls::decide); they outlive this.
  explicit TailCallers(std::span<const FunctionPlan> functions);

  // The function that code is of, where others end in it; null elsewhere.
  const FunctionPlan* target_at(uint64_t address) const;
  // One that ends in it, and there may be more; where it is known what was called, that one. Null where there is none.
  const FunctionPlan* caller_of(const FunctionPlan* target, std::optional<uint64_t> called) const;

 private:
  std::set<uint64_t> waiting_;  // addresses of those that have such tail calls
  std::multimap<const FunctionPlan*, const FunctionPlan*> before_;         // who ends in each
  std::map<uint64_t, std::pair<image::Range, const FunctionPlan*>> code_;  // of these, by its start
};

}  // namespace mdl::patch
