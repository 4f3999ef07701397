// One walk forward over a table from expressions to the operands that hold their values. Values that are read
// may change: a cell where it is written, cells, variables and memory where the application is called.
// Nothing else changes within a snippet, which is short, as the language has it.
//
// A value that is held takes a register until its last use, and a snippet has no stack: what would need
// more than a few, and more than before, is not done.
#include "compiler/passes/common_subexpressions.h"

#include <algorithm>
#include <tuple>

#include "compiler/ir/pressure.h"
#include "compiler/passes/constant_fold.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/facts.h"

namespace mdl::passes {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr size_t kFewRegisters = 4;

struct Expression {
  Op op;
  Operand a;
  Operand b;
  uint32_t index;

  auto tied() const { return std::tuple(op, a.kind, a.value, b.kind, b.value, index); }
  bool operator<(const Expression& other) const { return tied() < other.tied(); }
};
using Held = Facts<Expression, Operand>;

bool is_commutative(Op op) {
  return op == Op::add || op == Op::mul || op == Op::and_ || op == Op::or_ || op == Op::xor_ ||
         op == Op::eq || op == Op::ne;
}

Expression expression(const Inst& inst) {
  Expression e{inst.op, inst.a, inst.b, inst.index};
  auto order = [](const Operand& o) { return std::pair(o.kind, o.value); };
  if (is_commutative(inst.op) && order(e.b) < order(e.a)) std::swap(e.a, e.b);
  return e;
}

// Operations whose result depends on operands and on what the walk follows.
bool is_candidate(const Inst& inst) {
  return ir::info(inst.op).defines && !ir::has_effect(inst.op) && inst.op != Op::copy;
}

void forget_temp(Held& held, ir::Temp temp) {
  Operand gone = Operand::temp(temp);
  std::erase_if(held.now(), [&](const auto& entry) {
    return entry.first.a == gone || entry.first.b == gone || entry.second == gone;
  });
}

// Forgets values that an instruction may change.
void forget_changed(Held& held, const Inst& inst) {
  bool calls = inst.op == Op::call;
  bool writes = !ir::info(inst.op).defines && ir::info(inst.op).field == ir::FieldRule::CELL;
  if (!calls && !writes) return;
  std::erase_if(held.now(), [&](const auto& entry) {
    const Expression& e = entry.first;
    if (e.op == Op::read_address) return true;  // of a cell, perhaps
    if (e.op == Op::symbol) return calls;
    return e.op == Op::load && (calls || e.index == inst.index);
  });
}

void remember(Held& held, const Expression& e, Operand value) {
  if (held.now().size() >= kMaxFacts) held.now().clear();
  held.now().insert_or_assign(e, value);
}

void replace(Inst& inst, Held& held) {
  if (!is_candidate(inst)) {
    if (ir::info(inst.op).defines) forget_temp(held, inst.dst);
    forget_changed(held, inst);
    if (inst.op == Op::store) remember(held, {Op::load, {}, {}, inst.index}, inst.a);
    return;
  }
  Expression e = expression(inst);
  ir::Temp dst = inst.dst;
  if (const Operand* value = held.find(e)) {
    inst = {Op::copy, dst, *value, Operand::none(), 0};
    if (*value != Operand::temp(dst)) forget_temp(held, dst);
    return;
  }
  forget_temp(held, dst);
  bool reads_itself = e.a == Operand::temp(dst) || e.b == Operand::temp(dst);
  if (!reads_itself) remember(held, e, Operand::temp(dst));
}

// How much the registers will have to hold when copies are gone.
size_t final_pressure(ir::Snippet snippet) {
  constant_fold(snippet);
  dead_code(snippet);
  return ir::pressure(snippet);
}

}  // namespace

void common_subexpressions(ir::Snippet& snippet) {
  ir::Snippet changed = snippet;
  Held held;
  for (Inst& inst : changed.insts) {
    held.enter(inst);
    if (!held.reached()) continue;
    replace(inst, held);
    held.leave(inst);
  }
  if (changed == snippet) return;
  size_t after = final_pressure(changed);
  if (after <= kFewRegisters || after <= final_pressure(snippet)) snippet = std::move(changed);
}

}  // namespace mdl::passes
