#include "runtime/plan/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/arch/description.h"

namespace mdl::plan {
namespace {

constexpr RuleInfo kRules[] = {
#define X(id, name, what) {name, what},
    MDL_STENCIL_RULES(X)
#undef X
};

Error blame(const Stencil& stencil, const Error& error) {
  return {fmt::format("stencil `{}` is not admissible: {}", stencil.info.name, error.text),
          Status::plan_rejected};
}

bool equal_outside_holes(const Stencil& stencil, std::span<const std::byte> code) {
  size_t at = 0;
  for (const Hole& hole : stencil.holes) {
    if (!std::equal(code.begin() + at, code.begin() + hole.offset, stencil.code.begin() + at)) return false;
    at = hole.offset + hole.size;
  }
  return std::equal(code.begin() + at, code.end(), stencil.code.begin() + at);
}

}  // namespace

const RuleInfo& info(Rule rule) {
  return kRules[static_cast<size_t>(rule)];
}

Error broken(Rule rule, const std::string& what) {
  return {fmt::format("{} [{}]", what, info(rule).name)};
}

const TargetRules* rules_for(std::string_view target) {
  const TargetRules* own = arch::kMachine.stencil_rules;
  return own->target == target ? own : nullptr;
}

std::vector<std::string_view> known_targets() {
  return {arch::kMachine.stencil_rules->target};
}

Result<void> verify(const TargetRules& rules, const Stencil& stencil) {
  if (auto verified = rules.verify(stencil); !verified) return blame(stencil, verified.error());
  return {};
}

Result<void> verify_filled(const TargetRules& rules, const Stencil& stencil, std::span<const std::byte> code,
                           uint64_t block_size) {
  if (code.size() != stencil.code.size() || !equal_outside_holes(stencil, code))
    return blame(stencil,
                 broken(Rule::filled_same, "its filled code differs from the plan outside of the holes"));
  if (auto verified = rules.verify_filled(stencil, code, block_size); !verified)
    return blame(stencil, verified.error());
  return {};
}

}  // namespace mdl::plan
