// The passes, in the order in which they run. docs/adding-a-pass.md says how to add one.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "compiler/ir/ir.h"

namespace mdl::passes {

struct Pass {
  std::string_view name;  // of --disable-pass=NAME
  std::string_view summary;
  void (*run)(ir::Snippet&);
};

std::span<const Pass> all_passes();
bool is_pass(std::string_view name);

// Runs every pass that is not in `disabled` over a verified snippet. In debug builds the
// verifier runs after each; what it finds is a defect of the pass, which the error names.
Result<void> run_passes(ir::Snippet& snippet, const std::set<std::string, std::less<>>& disabled);

}  // namespace mdl::passes
