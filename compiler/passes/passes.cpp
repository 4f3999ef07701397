#include "compiler/passes/passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/verify.h"
#include "compiler/passes/constant_fold.h"
#include "compiler/passes/dead_code.h"

namespace mdl::passes {
namespace {

constexpr Pass kPasses[] = {
    {"constant-fold", "compute what is known, and pass known values on", constant_fold},
    {"dead-code", "remove what is not reached or not read", dead_code},
};

#ifdef NDEBUG
constexpr bool kVerifyEachPass = false;
#else
constexpr bool kVerifyEachPass = true;
#endif

}  // namespace

std::span<const Pass> all_passes() {
  return kPasses;
}

bool is_pass(std::string_view name) {
  return std::any_of(std::begin(kPasses), std::end(kPasses),
                     [&](const Pass& pass) { return pass.name == name; });
}

Result<void> run_passes(ir::Snippet& snippet, const std::set<std::string, std::less<>>& disabled) {
  for (const Pass& pass : kPasses) {
    if (disabled.contains(pass.name)) continue;
    pass.run(snippet);
    if (!kVerifyEachPass) continue;
    if (Result<void> verified = ir::verify(snippet); !verified)
      return Error{fmt::format("internal error: after the pass {}: {}", pass.name, verified.error().text)};
  }
  return {};
}

}  // namespace mdl::passes
