#include "compiler/passes/vectorize.h"

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/passes/keyed_constraints.h"

namespace mdl::passes {
namespace {

using format::Placement;
using format::PlacementKind;

// Its only traffic with cells is adding to the first one of the owner. What it adds comes from the
// process or from constants, because a load would be traffic too.
bool adds_only(const ir::Snippet& snippet, const std::string& value) {
  return std::all_of(snippet.insts.begin(), snippet.insts.end(), [&](const ir::Inst& inst) {
    if (ir::info(inst.op).field != ir::FieldRule::CELL) return true;
    return inst.op == ir::Op::add_cell && snippet.cells[inst.index].name == value;
  });
}

// True when all code below is constrained and only adds; `any` is set when there is some.
bool is_additive(const std::vector<Placement>& statements, const Program& program, const std::string& value,
                 bool& any) {
  return std::all_of(statements.begin(), statements.end(), [&](const Placement& statement) {
    if (statement.kind != PlacementKind::insert) return is_additive(statement.body, program, value, any);
    any = true;
    return statement.constrained && adds_only(program.snippets[statement.stencil], value);
  });
}

}  // namespace

void vectorize(Program& program) {
  keyed_constraints(program);
  for (format::Metric& metric : program.manifest.metrics) {
    bool any = false;
    metric.additive = !metric.cells.empty() && metric.cells[0].kind == format::CellKind::counter &&
                      is_additive(metric.placement, program, metric.id, any) && any;
  }
}

}  // namespace mdl::passes
