#include "compiler/ir/interpret.h"

#include "compiler/ir/op_info.h"

namespace mdl::ir {
namespace {

int64_t wrapping_add(int64_t a, int64_t b) {
  return *evaluate(Op::add, a, b);
}

int64_t element(const std::vector<int64_t>& values, uint32_t index) {
  return index < values.size() ? values[index] : 0;
}

}  // namespace

void interpret(const Snippet& snippet, Machine& machine) {
  std::vector<int64_t> temps(snippet.temps, 0);
  std::vector<size_t> labels(snippet.labels, snippet.insts.size());
  for (size_t at = 0; at < snippet.insts.size(); at++)
    if (snippet.insts[at].op == Op::label) labels[snippet.insts[at].index] = at;

  auto value = [&](const Operand& o) { return o.kind == Operand::Kind::temp ? temps[o.value] : o.value; };
  for (size_t at = 0; at < snippet.insts.size(); at++) {
    const Inst& inst = snippet.insts[at];
    int64_t a = value(inst.a);
    switch (inst.op) {
      case Op::arg:
        temps[inst.dst] = element(machine.args, inst.index);
        break;
      case Op::result:
        temps[inst.dst] = machine.result;
        break;
      case Op::constraint:
        temps[inst.dst] = element(machine.constants, inst.index);
        break;
      case Op::load:
        temps[inst.dst] = machine.cells[inst.index];
        break;
      case Op::store:
        machine.cells[inst.index] = a;
        break;
      case Op::add_cell:
        machine.cells[inst.index] = wrapping_add(machine.cells[inst.index], a);
        break;
      case Op::release:
        if (machine.cells[inst.index] > 0)
          machine.cells[inst.index] = released(machine.cells[inst.index], a);
        else
          machine.anomalies = wrapping_add(machine.anomalies, 1);
        break;
      case Op::jump:
        at = labels[inst.index];
        break;
      case Op::jump_zero:
        if (a == 0) at = labels[inst.index];
        break;
      case Op::label:
        break;
      default:
        temps[inst.dst] = *evaluate(inst.op, a, value(inst.b));
    }
  }
}

}  // namespace mdl::ir
