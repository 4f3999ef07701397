// `if ($constraint[0] == 5) c++;` is a constant and a jump around everything else, once bound_constants has
// folded the comparison.
#include "compiler/passes/bound_guards.h"

#include <algorithm>

#include "compiler/ir/op_info.h"

namespace mdl::passes {
namespace {

using format::Placement;
using format::PlacementKind;
using ir::Inst;
using ir::Op;
using ir::Operand;

// Whether there are only labels from the label on.
bool is_at_end(const ir::Snippet& snippet, uint32_t label) {
  for (size_t at = snippet.insts.size(); at-- > 0 && snippet.insts[at].op == Op::label;)
    if (snippet.insts[at].index == label) return true;
  return false;
}

// Takes the guard off the snippet's beginning; nothing where there is none.
std::optional<format::Expr> take_guard(ir::Snippet& snippet) {
  auto is_jump = [](const Inst& inst) { return inst.op == Op::jump_zero; };
  auto jump = std::find_if(snippet.insts.begin(), snippet.insts.end(), is_jump);
  if (jump == snippet.insts.end() || !is_at_end(snippet, jump->index)) return std::nullopt;
  const Inst* made = nullptr;  // what wrote the condition last
  for (auto at = snippet.insts.begin(); at != jump; ++at) {
    if (!ir::info(at->op).defines || ir::has_effect(at->op)) return std::nullopt;
    if (Operand::temp(at->dst) == jump->a) made = &*at;
  }
  if (made == nullptr || made->op != Op::constant) return std::nullopt;
  format::Expr condition = snippet.constants[made->index];
  if (condition.kind == format::ExprKind::cost) return std::nullopt;  // not known where code is placed
  snippet.insts.erase(jump);
  return condition;
}

void guard(Placement& placement, std::vector<ir::Snippet>& snippets) {
  for (Placement& inner : placement.body) guard(inner, snippets);
  if (placement.kind != PlacementKind::insert || placement.stencil >= snippets.size()) return;
  while (std::optional<format::Expr> condition = take_guard(snippets[placement.stencil])) {
    Placement branch;
    branch.kind = PlacementKind::if_;
    branch.expr = std::move(*condition);
    branch.expr.position = branch.position = placement.position;
    branch.body.push_back(std::move(placement));
    placement = std::move(branch);
    return guard(placement.body[0], snippets);
  }
}

}  // namespace

void bound_guards(Program& program) {
  auto all = [&](std::vector<Placement>& placements) {
    for (Placement& placement : placements) guard(placement, program.snippets);
  };
  for (format::Constraint& constraint : program.manifest.constraints) all(constraint.placement);
  for (format::Metric& metric : program.manifest.metrics) {
    all(metric.placement);
    for (format::Constraint& replacement : metric.replacements) all(replacement.placement);
  }
  all(program.manifest.statements);
}

}  // namespace mdl::passes
