// One walk backward knows which cells are overwritten before they are read, and one walk forward what
// they hold. `release` stays: it counts an anomaly. A signal handler that looks between two stores sees the
// older value instead of the one in between, as if it had come earlier.
#include "compiler/passes/dead_stores.h"

#include "compiler/passes/facts.h"

namespace mdl::passes {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

bool sees_cells(Op op) {
  return op == Op::call || op == Op::read_address;
}

void remove_overwritten(ir::Snippet& snippet) {
  std::vector<bool> overwritten(snippet.cells.size(), false);
  std::vector<std::vector<bool>> at_label(snippet.labels, overwritten);
  std::vector<Inst> kept;
  for (size_t at = snippet.insts.size(); at-- > 0;) {
    const Inst& inst = snippet.insts[at];
    bool changes = inst.op == Op::store || inst.op == Op::add_cell;
    if (changes && overwritten[inst.index]) continue;
    if (ir::info(inst.op).field == ir::FieldRule::CELL && inst.op != Op::address)
      overwritten[inst.index] = inst.op == Op::store;
    if (sees_cells(inst.op)) overwritten.assign(overwritten.size(), false);
    if (inst.op == Op::label) at_label[inst.index] = overwritten;
    if (inst.op == Op::jump) overwritten = at_label[inst.index];
    if (inst.op == Op::jump_zero)
      for (size_t cell = 0; cell < overwritten.size(); cell++)
        overwritten[cell] = overwritten[cell] && at_label[inst.index][cell];
    kept.push_back(inst);
  }
  snippet.insts.assign(kept.rbegin(), kept.rend());
}

void remove_idle(ir::Snippet& snippet) {
  Facts<uint32_t, Operand> holds;  // by cell
  std::vector<Inst> kept;
  for (const Inst& inst : snippet.insts) {
    holds.enter(inst);
    if (holds.reached()) {
      const Operand* value = inst.op == Op::store ? holds.find(inst.index) : nullptr;
      if (value != nullptr && *value == inst.a) continue;
      const ir::OpInfo& rule = ir::info(inst.op);
      if (rule.defines)
        std::erase_if(holds.now(), [&](const auto& e) { return e.second == Operand::temp(inst.dst); });
      if (inst.op == Op::call) holds.now().clear();
      if (!rule.defines && rule.field == ir::FieldRule::CELL) holds.now().erase(inst.index);
      if (inst.op == Op::store) holds.now()[inst.index] = inst.a;
      if (inst.op == Op::load) holds.now()[inst.index] = Operand::temp(inst.dst);
    }
    holds.leave(inst);
    kept.push_back(inst);
  }
  snippet.insts = std::move(kept);
}

}  // namespace

void dead_stores(ir::Snippet& snippet) {
  remove_idle(snippet);
  remove_overwritten(snippet);
}

}  // namespace mdl::passes
