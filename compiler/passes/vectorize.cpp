#include "compiler/passes/vectorize.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/op_info.h"
#include "compiler/passes/keyed_constraints.h"

namespace mdl::passes {
namespace {

using format::Placement;
using format::PlacementKind;

// Its only traffic with cells is adding to the first one of the owner, and reading flags of the metric, which
// no focus has a part in. The amount that it adds comes from the process or from constants, because another
// load would be traffic too.
bool adds_only(const ir::Snippet& snippet, const std::string& value) {
  return std::all_of(snippet.insts.begin(), snippet.insts.end(), [&](const ir::Inst& inst) {
    if (ir::info(inst.op).field != ir::FieldRule::CELL) return true;
    const format::Cell& cell = snippet.cells[inst.index];
    return (inst.op == ir::Op::load && cell.kind == format::CellKind::flag) ||
           (inst.op == ir::Op::add_cell && cell.name == value);
  });
}

// All that the code does is to count, in a flag of the metric, the frames of a function: += 1 at entries, -=
// 1 at returns, whatever the focus.
bool counts_frames(const Placement& statement, const ir::Snippet& snippet) {
  const bool entry = snippet.point == format::PointKind::entry;
  if (statement.constrained || snippet.insts.size() != 1 ||
      (!entry && snippet.point != format::PointKind::return_))
    return false;
  const ir::Inst& inst = snippet.insts[0];
  return inst.op == (entry ? ir::Op::add_cell : ir::Op::release) && inst.a == ir::Operand::imm(1) &&
         snippet.cells[inst.index].kind == format::CellKind::flag &&
         statement.order == (entry ? format::Order::append : format::Order::prepend);
}

// Why some code below is not constrained or does more than add; "" when all of it does just that. `any` is
// set when there is some.
std::string obstacle(const std::vector<Placement>& statements, const Program& program,
                     const std::string& value, bool& any) {
  for (const Placement& statement : statements) {
    std::string why;
    if (statement.kind != PlacementKind::insert) {
      why = obstacle(statement.body, program, value, any);
    } else if (!counts_frames(statement, program.snippets[statement.stencil])) {
      any = true;
      if (!statement.constrained)
        why = fmt::format("its code at line {} is not 'constrained'", statement.position.line);
      else if (!adds_only(program.snippets[statement.stencil], value))
        why = fmt::format("its code at line {} does more than add, to its value, what reads no counter",
                          statement.position.line);
    }
    if (!why.empty()) return why;
  }
  return "";
}

// All that the code does is this operation on the cell.
bool is_just(const ir::Snippet& snippet, ir::Op op, const std::string& cell) {
  if (snippet.insts.size() != 1) return false;
  const ir::Inst& inst = snippet.insts[0];
  const bool by_one = op == ir::Op::start_timer || op == ir::Op::stop_timer || inst.a == ir::Operand::imm(1);
  return inst.op == op && by_one && snippet.cells[inst.index].name == cell;
}

// True when all code below does `up` at entries, behind what is there, and `down` at returns, in front of it;
// `constrained` or not, as is wanted.
bool follows_frames(const std::vector<Placement>& statements, const Program& program, const std::string& cell,
                    ir::Op up, ir::Op down, bool constrained, bool& any) {
  return std::all_of(statements.begin(), statements.end(), [&](const Placement& statement) {
    if (statement.kind != PlacementKind::insert)
      return follows_frames(statement.body, program, cell, up, down, constrained, any);
    any = true;
    const ir::Snippet& snippet = program.snippets[statement.stencil];
    const bool entry = snippet.point == format::PointKind::entry;
    if (!entry && snippet.point != format::PointKind::return_) return false;
    return statement.constrained == constrained && is_just(snippet, entry ? up : down, cell) &&
           statement.order == (entry ? format::Order::append : format::Order::prepend);
  });
}

// A constraint of code that counts the active frames of functions.
bool counts_frames(const format::Constraint& constraint, const Program& program) {
  bool any = false;
  return constraint.cells.size() == 1 &&
         follows_frames(constraint.placement, program, constraint.name, ir::Op::add_cell, ir::Op::release,
                        false, any) &&
         any;
}

bool is_additive_timer(const format::Metric& metric, const Program& program) {
  bool any = false;
  if (metric.cells.size() != 1 || !follows_frames(metric.placement, program, metric.id, ir::Op::start_timer,
                                                  ir::Op::stop_timer, true, any))
    return false;
  const auto& constraints = program.manifest.constraints;
  return any && std::all_of(constraints.begin(), constraints.end(), [&](const format::Constraint& one) {
           const auto& names = metric.constraints;
           const bool named = std::find(names.begin(), names.end(), one.name) != names.end();
           return !named || one.is_default || one.path[0] != "Code" || counts_frames(one, program);
         });
}

std::string obstacle(const format::Metric& metric, const Program& program) {
  if (!metric.cells.empty() && format::is_timer(metric.cells[0].kind))
    return is_additive_timer(metric, program)
               ? ""
               : "its timer, or its constraint of code, does more than follow frames from entries to returns";
  if (metric.cells.empty() || metric.cells[0].kind != format::CellKind::counter)
    return "its value is no counter";
  bool any = false;
  std::string why = obstacle(metric.placement, program, metric.id, any);
  return why.empty() && !any ? "its base has no code" : why;
}

}  // namespace

void vectorize(Program& program) {
  keyed_constraints(program);
  for (format::Metric& metric : program.manifest.metrics) metric.additive = obstacle(metric, program).empty();
}

std::vector<NotVector> not_vectors(const Program& program) {
  std::vector<NotVector> out;
  for (const format::Constraint& c : program.manifest.constraints)
    if (!c.not_keyed.empty()) out.push_back({"constraint", c.name, c.not_keyed, c.position});
  for (const format::Metric& m : program.manifest.metrics) {
    if (m.constraints.empty()) continue;
    if (std::string why = obstacle(m, program); !why.empty())
      out.push_back({"metric", m.id, std::move(why), m.position});
  }
  return out;
}

}  // namespace mdl::passes
