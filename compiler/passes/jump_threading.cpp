// Targets are found from the end: all jumps lead forward, so where a jump leads in the end is known before
// the jumps to it are looked at. A condition that leads around a jump is turned around: `a || b` has one.
#include "compiler/passes/jump_threading.h"

#include "compiler/ir/op_info.h"
#include "compiler/ir/verify.h"

namespace mdl::passes {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

void thread_jumps(ir::Snippet& snippet) {
  std::vector<const Inst*> at_label(snippet.labels, nullptr);  // the first instruction behind it
  const Inst* next = nullptr;
  for (size_t at = snippet.insts.size(); at-- > 0;) {
    Inst& inst = snippet.insts[at];
    if (inst.op == Op::label) at_label[inst.index] = next;
    if (inst.op == Op::label) continue;
    if (inst.op == Op::jump || inst.op == Op::jump_zero) {
      const Inst* to = at_label[inst.index];
      bool decided = to != nullptr && inst.op == Op::jump_zero && to->op == Op::jump_zero && to->a == inst.a;
      if (to != nullptr && (to->op == Op::jump || decided)) inst.index = to->index;
    }
    next = &inst;
  }
}

// Whether nothing but labels, this one among them, is at `at`.
bool stands_at(const std::vector<Inst>& insts, size_t at, uint32_t label) {
  for (; at < insts.size() && insts[at].op == Op::label; at++)
    if (insts[at].index == label) return true;
  return false;
}

void turn_conditions(ir::Snippet& snippet) {
  std::vector<Inst> kept;
  for (size_t at = 0; at < snippet.insts.size(); at++) {
    const Inst& inst = snippet.insts[at];
    bool around = inst.op == Op::jump_zero && inst.a.kind == Operand::Kind::temp &&
                  at + 1 < snippet.insts.size() && snippet.insts[at + 1].op == Op::jump &&
                  stands_at(snippet.insts, at + 2, inst.index);
    if (!around || snippet.temps >= ir::kMaxTemps) {
      kept.push_back(inst);
      continue;
    }
    ir::Temp turned = snippet.temps++;
    kept.push_back({Op::eq, turned, inst.a, Operand::imm(0), 0});
    kept.push_back({Op::jump_zero, ir::kNoTemp, Operand::temp(turned), {}, snippet.insts[at + 1].index});
    at++;
  }
  snippet.insts = std::move(kept);
}

}  // namespace

void jump_threading(ir::Snippet& snippet) {
  thread_jumps(snippet);
  turn_conditions(snippet);
}

}  // namespace mdl::passes
