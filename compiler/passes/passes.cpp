#include "compiler/passes/passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/verify.h"
#include "compiler/passes/bound_constants.h"
#include "compiler/passes/bound_guards.h"
#include "compiler/passes/common_subexpressions.h"
#include "compiler/passes/constant_fold.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/dead_stores.h"
#include "compiler/passes/jump_threading.h"
#include "compiler/passes/strength_reduction.h"
#include "compiler/passes/unused_tables.h"
#include "compiler/passes/vectorize.h"

namespace mdl::passes {
namespace {

constexpr Pass kPasses[] = {
    {"constant-fold", "compute what is known, and pass known values on", constant_fold, nullptr},
    {"bound-constants", "leave arithmetic on constants of the request to the injector", bound_constants,
     nullptr},
    {"common-subexpressions", "compute once what is computed again", common_subexpressions, nullptr},
    {"strength-reduction", "cheaper operations of the same result", strength_reduction, nullptr},
    {"jump-threading", "jump to where a jump leads in the end", jump_threading, nullptr},
    {"dead-stores", "remove writes that nobody sees", dead_stores, nullptr},
    {"dead-code", "remove what is not reached or not read", dead_code, nullptr},
    {"bound-guards", "decide conditions of the request where code is placed", nullptr, bound_guards},
    {"vectorize", "measure all children of a resource by one value", nullptr, vectorize},
    {"peephole", "cheaper instructions of the same effect", nullptr, nullptr},
};

constexpr int kMaxRounds = 4;
constexpr std::string_view kAll = "all";

#ifdef NDEBUG
constexpr bool kVerifyEachPass = false;
#else
constexpr bool kVerifyEachPass = true;
#endif

Result<void> verify_after(const Pass& pass, const ir::Snippet& snippet) {
  if (!kVerifyEachPass) return {};
  if (Result<void> verified = ir::verify(snippet); !verified)
    return Error{fmt::format("internal error: after the pass {}: {}", pass.name, verified.error().text)};
  return {};
}

}  // namespace

std::span<const Pass> all_passes() {
  return kPasses;
}

bool is_pass(std::string_view name) {
  return name == kAll || std::any_of(std::begin(kPasses), std::end(kPasses),
                                     [&](const Pass& pass) { return pass.name == name; });
}

bool is_off(std::string_view pass, const Disabled& disabled) {
  return disabled.contains(pass) || disabled.contains(kAll);
}

Result<void> run_passes(ir::Snippet& snippet, const Disabled& disabled) {
  for (int round = 0; round < kMaxRounds; round++) {
    const ir::Snippet before = snippet;
    for (const Pass& pass : kPasses) {
      if (pass.run == nullptr || is_off(pass.name, disabled)) continue;
      pass.run(snippet);
      if (Result<void> verified = verify_after(pass, snippet); !verified) return verified;
    }
    if (snippet == before) break;
  }
  return {};
}

Result<void> run_passes(Program& program, const Disabled& disabled) {
  for (ir::Snippet& snippet : program.snippets)
    if (Result<void> passed = run_passes(snippet, disabled); !passed) return passed;
  for (const Pass& pass : kPasses) {
    if (pass.run_program == nullptr || is_off(pass.name, disabled)) continue;
    pass.run_program(program);
    for (const ir::Snippet& snippet : program.snippets)
      if (Result<void> verified = verify_after(pass, snippet); !verified) return verified;
  }
  if (is_off("dead-code", disabled)) return {};
  for (ir::Snippet& snippet : program.snippets) {
    dead_code(snippet);  // what the program's passes left unread
    unused_tables(snippet);
  }
  return {};
}

}  // namespace mdl::passes
