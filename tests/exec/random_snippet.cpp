#include "random_snippet.h"

#include <limits>

#include "compiler/ir/bound.h"
#include "compiler/ir/op_info.h"
#include "compiler/ir/verify.h"

namespace mdl::exec {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr uint32_t kTemps = 10;

int64_t interesting(Random& random) {
  constexpr int64_t kValues[] = {0,
                                 1,
                                 -1,
                                 2,
                                 -2,
                                 3,
                                 7,
                                 127,
                                 128,
                                 -128,
                                 -129,
                                 1000,
                                 32768,
                                 65535,
                                 std::numeric_limits<int32_t>::max(),
                                 std::numeric_limits<int32_t>::min(),
                                 int64_t{std::numeric_limits<int32_t>::max()} + 1,
                                 int64_t{std::numeric_limits<int32_t>::min()} - 1,
                                 std::numeric_limits<uint32_t>::max(),
                                 int64_t{1} << 32,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
  uint64_t choice = random() % (std::size(kValues) + 3);
  if (choice < std::size(kValues)) return kValues[choice];
  return static_cast<int64_t>(random() >> (random() % 64));
}

class Generator {
 public:
  Generator(Random& random, Reach reach) : random_(random), reach_(reach), defined_(kTemps, false) {}

  ir::Snippet run() {
    snippet_.name = "s";
    snippet_.point = random_() % 2 ? format::PointKind::entry : format::PointKind::return_;
    snippet_.cells = {
        {"a", format::CellKind::counter}, {"b", format::CellKind::counter}, {"f", format::CellKind::flag}};
    if (reach_ == Reach::world) reach_outside();
    snippet_.constants.resize(2);
    for (int64_t n : {0, 1}) {
      snippet_.constants[static_cast<size_t>(n)].kind = format::ExprKind::selected;
      snippet_.constants[static_cast<size_t>(n)].number = n;
    }
    snippet_.temps = kTemps;
    body(3 + random_() % 20, 0);
    if (reach_ == Reach::world) emit(Op::label, ir::kNoTemp, Operand::none(), Operand::none(), kEnd);
    return std::move(snippet_);
  }

 private:
  static constexpr uint32_t kEnd = 0;  // the label that a call which is busy leads to
  static constexpr uint32_t kCall = 7, kHistogram = 8, kEntries = 9;
  static constexpr Op kWithCells[] = {Op::load, Op::store, Op::store, Op::add_cell, Op::address, Op::call};

  static constexpr int64_t kWidths[] = {8, 16, 32, -8, -16, -32};

  void reach_outside() {
    using enum format::CellKind;
    const std::pair<const char*, format::CellKind> more[] = {
        {"w", wall_timer}, {"p", process_timer}, {"t", event_timer}, {"e", event_counter},
        {"c", call},       {"h", histogram},     {"n", entries}};
    static_assert(kMachineCells + std::size(more) == kWorldCells);
    for (const auto& [name, kind] : more) snippet_.cells.push_back({name, kind});
    snippet_.cells[5].event = snippet_.cells[6].event = "MINOR_FAULTS";
    snippet_.symbols = {{"v", format::SymbolKind::variable}, {"g", format::SymbolKind::function}};
    snippet_.labels = 1;
  }

  // Enters a call, gives it arguments, calls and leaves, unless it is busy.
  void call() {
    ir::Temp busy = random_() % kTemps, result = random_() % kTemps;
    emit(Op::enter_call, busy, Operand::none(), Operand::none(), kCall);
    defined_[busy] = true;
    emit(Op::jump_zero, ir::kNoTemp, Operand::temp(busy), Operand::none(), kEnd);
    for (uint64_t n = random_() % 3; n-- > 0;)
      emit(Op::call_arg, ir::kNoTemp, operand(), Operand::imm(static_cast<int64_t>(n)), kCall);
    emit(Op::call, result, Operand::imm(1), Operand::none(), kCall);
    defined_[result] = true;
    emit(Op::leave_call, ir::kNoTemp, Operand::none(), Operand::none(), kCall);
  }

  void emit(Op op, ir::Temp dst, Operand a, Operand b, uint32_t index = 0) {
    snippet_.insts.push_back({op, dst, a, b, index});
  }

  Operand operand() {
    ir::Temp temp = random_() % kTemps;
    return random_() % 4 && defined_[temp] ? Operand::temp(temp) : Operand::imm(interesting(random_));
  }

  void body(size_t length, int depth) {
    for (size_t i = 0; i < length; i++) {
      if (depth < 3 && random_() % 6 == 0)
        branch(length / 2, depth);
      else
        instruction();
    }
  }

  Op pick() {
    for (;;) {
      Op op = static_cast<Op>(random_() % static_cast<uint64_t>(Op::jump));
      bool outside = op == Op::symbol || op == Op::thread || (op >= Op::address && op <= Op::leave_call);
      if (reach_ == Reach::world) return random_() % 3 ? op : kWithCells[random_() % std::size(kWithCells)];
      if (!outside && op != Op::shl && op != Op::shr) return op;
    }
  }

  void instruction() {
    Op op = pick();
    if (op >= Op::enter_call && op <= Op::leave_call) return call();
    const format::PointKindInfo& point = format::info(snippet_.point);
    if ((op == Op::arg && !point.args) || (op == Op::result && !point.result)) op = Op::load;
    const ir::OpInfo& rule = ir::info(op);
    Operand a = rule.a == ir::OperandRule::V ? operand() : Operand::none();
    Operand b = rule.b == ir::OperandRule::V ? operand() : Operand::none();
    if (op == Op::extend) b = Operand::imm(kWidths[random_() % std::size(kWidths)]);
    uint32_t index = 0;
    if (rule.field == ir::FieldRule::CELL) index = cell_for(op);
    if (op == Op::arg) index = random_() % 6;
    if (op == Op::constant) index = random_() % 2;
    ir::Temp dst = rule.defines ? random_() % kTemps : ir::kNoTemp;
    emit(op, dst, a, b, index);
    if (rule.defines) defined_[dst] = true;
    if (op == Op::address && random_() % 2) emit(Op::read_address, dst, Operand::temp(dst), Operand::none());
  }

  uint32_t cell_for(Op op) {
    if (op == Op::start_timer || op == Op::stop_timer) return 3 + random_() % 3;
    if (op == Op::sample_event) return 6;
    if (op == Op::update) return kHistogram;
    if (op == Op::enter || op == Op::kept || op == Op::elapsed || op == Op::stayed || op == Op::pause ||
        op == Op::resume)
      return kEntries;
    return random_() % 3;
  }

  // if (x) {...} or if (x) {...} else {...}; now and then the first part jumps to the end
  // of a branch around it, so that several jumps meet at a label.
  void branch(size_t length, int depth) {
    uint32_t other = snippet_.labels++, end = snippet_.labels++;
    Operand condition = operand();
    if (random_() % 2) {
      ir::Temp temp = random_() % kTemps;
      Op op = static_cast<Op>(static_cast<uint64_t>(Op::eq) + random_() % 6);
      Operand left = operand(), right = operand();
      emit(op, temp, left, right);
      defined_[temp] = true;
      condition = Operand::temp(temp);
    }
    emit(Op::jump_zero, ir::kNoTemp, condition, Operand::none(), other);
    std::vector<bool> before = defined_;
    ends_.push_back(end);
    body(length, depth + 1);
    uint32_t target = ends_[random_() % 4 ? ends_.size() - 1 : random_() % ends_.size()];
    emit(Op::jump, ir::kNoTemp, Operand::none(), Operand::none(), target);
    emit(Op::label, ir::kNoTemp, Operand::none(), Operand::none(), other);
    std::vector<bool> first = defined_;
    defined_ = before;
    if (random_() % 2) body(length, depth + 1);
    emit(Op::label, ir::kNoTemp, Operand::none(), Operand::none(), end);
    ends_.pop_back();
    // Without jumps from inside, what both ways define is defined; with them, only what was before.
    bool merged = target == end && random_() % 2;
    for (size_t i = 0; i < kTemps; i++) defined_[i] = before[i] || (merged && first[i] && defined_[i]);
  }

  Random& random_;
  Reach reach_;
  ir::Snippet snippet_;
  std::vector<bool> defined_;
  std::vector<uint32_t> ends_;  // labels behind the branches around
};

}  // namespace

std::vector<int64_t> bound(const std::vector<format::Expr>& constants, const std::vector<int64_t>& selected) {
  std::vector<int64_t> values;
  auto leaf = [&](const format::Expr& e) { return selected.at(static_cast<size_t>(e.number)); };
  for (const format::Expr& constant : constants) values.push_back(ir::bound_value(constant, leaf));
  return values;
}

ir::Snippet random_snippet(Random& random, Reach reach) {
  // A few have a read that one of their jumps leaves unwritten: the verifier sorts them out.
  while (true)
    if (ir::Snippet snippet = Generator(random, reach).run(); ir::verify(snippet)) return snippet;
}

ir::Machine random_machine(Random& random) {
  ir::Machine machine;
  for (int i = 0; i < 6; i++) machine.args.push_back(interesting(random));
  machine.result = interesting(random);
  for (int i = 0; i < 2; i++) machine.constants.push_back(interesting(random));
  for (size_t i = 0; i < kMachineCells; i++) machine.cells.push_back(interesting(random));
  machine.anomalies = static_cast<int64_t>(random() % 5);
  return machine;
}

Inputs random_inputs(Random& random, const ir::Snippet& snippet) {
  Inputs inputs;
  inputs.machine = random_machine(random);
  ir::Machine& machine = inputs.machine;
  machine.thread = static_cast<int64_t>(random() % 100000);
  machine.cells.clear();
  for (const format::Cell& cell : snippet.cells) {
    const auto depth = static_cast<int64_t>(random() % 3);
    const bool wall = cell.kind == format::CellKind::wall_timer;
    const bool call = cell.kind == format::CellKind::call;
    // A wall timer that runs was started when the clock was at 1.
    machine.cells.push_back(wall   ? (depth > 0 ? -1 : static_cast<int64_t>(random() % 1000))
                            : call ? static_cast<int64_t>(random() % 4 == 0)
                                   : interesting(random));
    machine.seconds.push_back(cell.kind == format::CellKind::event_counter ? interesting(random) : depth);
  }
  inputs.clock = (int64_t{1} << 56) + static_cast<int64_t>(random() % 1000000);
  inputs.step = static_cast<int64_t>(random() % 100000);
  for (size_t i = 0; i < snippet.symbols.size(); i++) {
    // An integer of 1, 2, 4 or 8 bytes that lies within 8.
    const uint64_t bits = uint64_t{8} << random() % 4;
    const uint64_t left = random() % ((64 - bits) / 8 + 1) * 8;
    inputs.variables.push_back(
        {interesting(random), static_cast<uint8_t>(left), static_cast<uint8_t>(64 - bits)});
    inputs.functions.push_back(interesting(random));
  }
  return inputs;
}

ir::Snippet shrink(ir::Snippet snippet, const std::function<bool(const ir::Snippet&)>& fails) {
  auto holds = [&](const ir::Snippet& s) { return ir::verify(s) && fails(s); };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t at = snippet.insts.size(); at-- > 0;) {
      ir::Snippet smaller = snippet;
      smaller.insts.erase(smaller.insts.begin() + static_cast<std::ptrdiff_t>(at));
      if (!holds(smaller)) continue;
      snippet = std::move(smaller);
      changed = true;
    }
    for (size_t at = 0; at < snippet.insts.size(); at++)
      for (Operand Inst::*operand : {&Inst::a, &Inst::b}) {
        ir::Snippet simpler = snippet;
        Operand& o = simpler.insts[at].*operand;
        if (o.kind == Operand::Kind::none || o == Operand::imm(1) || o == Operand::imm(0)) continue;
        o = Operand::imm(1);
        if (!holds(simpler)) continue;
        snippet = std::move(simpler);
        changed = true;
      }
  }
  return snippet;
}

}  // namespace mdl::exec
