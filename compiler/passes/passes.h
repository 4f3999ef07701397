// The passes, in the order in which they run. docs/adding-a-pass.md says how to add one.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "compiler/program.h"

namespace mdl::passes {

// A pass rewrites one snippet at a time, or the whole program; one of the two is null. Both are null of one
// that is not the compiler's but the backend's (backend/peephole.h).
struct Pass {
  std::string_view name;  // of --disable-pass=NAME
  std::string_view summary;
  void (*run)(ir::Snippet&);
  void (*run_program)(Program&);
};
using Disabled = std::set<std::string, std::less<>>;

std::span<const Pass> all_passes();
bool is_pass(std::string_view name);  // "all" stands for every pass
bool is_off(std::string_view pass, const Disabled& disabled);

// Runs the passes of snippets that are not in `disabled` over a verified snippet, again as long as that
// changes something and a few times at most, because each finds more in what the others leave. In debug
// builds the verifier runs after each; what it finds is a defect of the pass, which the error names.
// Cells, constants and symbols keep their indices; there may be more of them.
Result<void> run_passes(ir::Snippet& snippet, const Disabled& disabled);

// The same for each snippet of a program, then the passes of programs. With dead-code, snippets also lose the
// cells, constants and symbols that nothing in them uses.
Result<void> run_passes(Program& program, const Disabled& disabled);

}  // namespace mdl::passes
