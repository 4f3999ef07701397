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

// Timers, event counters and calls. Answers what the instruction yields, 0 if nothing.
class Cells {
 public:
  Cells(const Snippet& snippet, Machine& machine) : snippet_(snippet), machine_(machine) {
    machine.seconds.resize(snippet.cells.size());
    arguments_.resize(snippet.cells.size());
  }

  int64_t run(const Inst& inst, int64_t a) {
    int64_t& value = machine_.cells[inst.index];
    int64_t& second = machine_.seconds[inst.index];
    const format::Cell& cell = snippet_.cells[inst.index];
    World* world = machine_.world;
    switch (inst.op) {
      case Op::start_timer:
        if (second++ == 0) value = wrapping_sub(value, clock(cell));
        return 0;
      case Op::stop_timer:
        if (second <= 0)
          machine_.anomalies = wrapping_add(machine_.anomalies, 1);
        else if (--second == 0)
          value = wrapping_add(value, clock(cell));
        return 0;
      case Op::sample_event: {
        int64_t now = clock(cell);
        if (second != 0) value = wrapping_add(value, wrapping_sub(now, second));
        second = now;
        return 0;
      }
      case Op::address:
        return world ? world->address(cell) : 0;
      case Op::enter:  // time passes with each entry, and only then
        value = wrapping_add(value, 1);
        second = a;
        return 0;
      case Op::kept:
        return second;
      case Op::elapsed:
      case Op::stayed: {
        const int64_t entries = value;
        value = 0;
        return entries;
      }
      case Op::pause:  // no time passes here; but each is told from the other, and from none
        value = wrapping_add(value, 2);
        return 0;
      case Op::resume:
        value = wrapping_add(value, 4);
        return 0;
      case Op::enter_call:
        if (value != 0) return 0;
        value = 1;
        return 1;
      case Op::call_arg:
        arguments_[inst.index][static_cast<size_t>(inst.b.value)] = a;
        return 0;
      case Op::call:
        return world ? world->call(snippet_.symbols[static_cast<size_t>(a)].name, arguments_[inst.index]) : 0;
      default:  // leave_call
        value = 0;
        return 0;
    }
  }

 private:
  static int64_t wrapping_sub(int64_t a, int64_t b) { return *evaluate(Op::sub, a, b); }
  int64_t clock(const format::Cell& cell) { return machine_.world ? machine_.world->clock(cell) : 0; }

  const Snippet& snippet_;
  Machine& machine_;
  std::vector<std::array<int64_t, 6>> arguments_;
};

}  // namespace

void interpret(const Snippet& snippet, Machine& machine) {
  std::vector<int64_t> temps(snippet.temps, 0);
  Cells cells(snippet, machine);
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
      case Op::constant:
        temps[inst.dst] = element(machine.constants, inst.index);
        break;
      case Op::symbol:
        temps[inst.dst] = machine.world ? machine.world->variable(snippet.symbols[inst.index].name) : 0;
        break;
      case Op::thread:
        temps[inst.dst] = machine.thread;
        break;
      case Op::cpu:
      case Op::now:
      case Op::error:
        temps[inst.dst] = machine.world ? machine.world->ask(inst.op) : 0;
        break;
      case Op::read_address:
        temps[inst.dst] = machine.world ? machine.world->memory(a) : 0;
        break;
      case Op::start_timer:
      case Op::stop_timer:
      case Op::sample_event:
      case Op::address:
      case Op::enter:
      case Op::kept:
      case Op::elapsed:
      case Op::stayed:
      case Op::pause:
      case Op::resume:
      case Op::enter_call:
      case Op::call_arg:
      case Op::call:
      case Op::leave_call: {
        int64_t yielded = cells.run(inst, a);
        if (inst.dst != kNoTemp) temps[inst.dst] = yielded;
        break;
      }
      case Op::load:
        temps[inst.dst] = machine.cells[inst.index];
        break;
      case Op::store:
        machine.cells[inst.index] = a;
        break;
      case Op::add_cell:
        machine.cells[inst.index] = wrapping_add(machine.cells[inst.index], a);
        break;
      case Op::update:  // of a histogram: the sum, which is its first word
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
