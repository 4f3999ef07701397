// IR text is input too (`mdlc --emit=ir` prints it, tests are written in it): whatever it says, it is
// parsed or refused; what the verifier admits prints and parses back, runs, and means the same after the
// passes.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "compiler/ir/bound.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/passes.h"

namespace {

using mdl::ir::Machine;
using mdl::ir::Snippet;

Machine run(const Snippet& snippet) {
  Machine machine;
  machine.args = {3, -1, 0, INT64_MIN, 7, INT64_MAX};
  machine.result = -2;
  // Passes compute with constants that they do not know: any value will do, if always the same.
  auto leaf = [](const mdl::format::Expr& e) {
    return static_cast<int64_t>(std::hash<std::string>{}(mdl::format::write_expr(e))) >> (e.number & 63);
  };
  for (const mdl::format::Expr& constant : snippet.constants)
    machine.constants.push_back(mdl::ir::bound_value(constant, leaf));
  machine.cells.assign(snippet.cells.size(), 1);
  mdl::ir::interpret(snippet, machine);
  return machine;
}

void check(const Snippet& snippet) {
  if (!mdl::ir::verify(snippet)) return;
  auto again = mdl::ir::parse(mdl::ir::print(snippet));
  if (!again || again->size() != 1 || !((*again)[0] == snippet)) std::abort();
  Snippet passed = snippet;
  if (!mdl::passes::run_passes(passed, {})) std::abort();
  Machine before = run(snippet), after = run(passed);
  if (before.cells != after.cells || before.anomalies != after.anomalies) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto snippets = mdl::ir::parse({reinterpret_cast<const char*>(data), size});
  if (!snippets) return 0;
  for (const Snippet& snippet : *snippets) check(snippet);
  return 0;
}
