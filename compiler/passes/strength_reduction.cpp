// One walk forward that knows how each temporary was computed, as long as neither it nor an operand of that
// is written again.
//
// x / 2^k rounds toward zero, a shift down: 2^k - 1 is added first where x is negative, which is what its
// sign, shifted down and masked, yields. x / -2^k is the negative of that; x / INT64_MIN is 1 for that x,
// else 0.
#include "compiler/passes/strength_reduction.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "compiler/ir/verify.h"
#include "compiler/passes/facts.h"

namespace mdl::passes {
namespace {

using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

bool is_power_of_two(int64_t value) {
  return std::has_single_bit(static_cast<uint64_t>(value));
}
int64_t log2_of(int64_t value) {
  return std::countr_zero(static_cast<uint64_t>(value));
}
int64_t negated(int64_t value) {
  return static_cast<int64_t>(0 - static_cast<uint64_t>(value));
}

int64_t size_of_width(int64_t width) {
  return width < 0 ? -width : width;
}

// A comparison, the one of the exchanged operands, and the one that is true where this one is not.
struct Comparison {
  Op op, mirrored, inverted;
};
constexpr Comparison kComparisons[] = {{Op::eq, Op::eq, Op::ne}, {Op::ne, Op::ne, Op::eq},
                                       {Op::lt, Op::gt, Op::ge}, {Op::le, Op::ge, Op::gt},
                                       {Op::gt, Op::lt, Op::le}, {Op::ge, Op::le, Op::lt}};

// nullptr for what compares nothing.
const Comparison* comparison(Op op) {
  const auto* found = std::ranges::find(kComparisons, op, &Comparison::op);
  return found == std::end(kComparisons) ? nullptr : found;
}

class Reducer {
 public:
  explicit Reducer(ir::Snippet& snippet) : snippet_(snippet) {}

  void run() {
    for (Inst inst : snippet_.insts) {
      made_.enter(inst);
      if (made_.reached()) {
        reduce(inst);
        note(inst);
        made_.leave(inst);
      }
      kept_.push_back(inst);
    }
    snippet_.insts = std::move(kept_);
  }

 private:
  const Inst* definition(const Operand& operand) const {
    return operand.kind == Operand::Kind::temp ? made_.find(static_cast<ir::Temp>(operand.value)) : nullptr;
  }

  void reduce(Inst& inst) {
    if (inst.op == Op::store) return add_in_place(inst);
    if (inst.op == Op::jump_zero) {
      const Inst* of = definition(inst.a);
      if (of != nullptr && of->op == Op::ne && is_imm(of->b, 0)) inst.a = of->a;
      return;
    }
    order_operands(inst);
    if (inst.op == Op::mul && is_imm(inst.b)) multiply(inst);
    if (inst.op == Op::div && is_imm(inst.b)) divide(inst);
    if (inst.op == Op::sub && is_imm(inst.b))
      inst = {Op::add, inst.dst, inst.a, Operand::imm(negated(inst.b.value)), 0};
    if (inst.op == Op::extend) extend(inst);
    if (comparison(inst.op) && is_imm(inst.b)) compare(inst);
  }

  static void order_operands(Inst& inst) {
    if (!is_imm(inst.a) || inst.b.kind != Operand::Kind::temp) return;
    bool commutes = inst.op == Op::add || inst.op == Op::mul || inst.op == Op::and_ || inst.op == Op::or_ ||
                    inst.op == Op::xor_;
    const Comparison* row = comparison(inst.op);
    if (!commutes && row == nullptr) return;
    std::swap(inst.a, inst.b);
    if (row != nullptr) inst.op = row->mirrored;
  }

  static void multiply(Inst& inst) {
    if (inst.b.value == -1)
      inst = {Op::neg, inst.dst, inst.a, Operand::none(), 0};
    else if (is_power_of_two(inst.b.value) && inst.b.value != 1)
      inst = {Op::shl, inst.dst, inst.a, Operand::imm(log2_of(inst.b.value)), 0};
  }

  // A temporary for a step on the way, unless there are too many.
  std::optional<ir::Temp> fresh() {
    if (snippet_.temps >= ir::kMaxTemps) return std::nullopt;
    return snippet_.temps++;
  }

  void divide(Inst& inst) {
    int64_t by = inst.b.value;
    if (by == -1) inst = {Op::neg, inst.dst, inst.a, Operand::none(), 0};
    if (by == kMin) inst = {Op::eq, inst.dst, inst.a, Operand::imm(kMin), 0};
    int64_t size = by < 0 ? negated(by) : by;
    if (size < 2 || !is_power_of_two(size) || by == kMin) return;
    std::optional<ir::Temp> step = fresh();
    if (!step) return;
    Operand t = Operand::temp(*step);
    kept_.push_back({Op::shr, *step, inst.a, Operand::imm(63), 0});
    kept_.push_back({Op::and_, *step, t, Operand::imm(size - 1), 0});
    kept_.push_back({Op::add, *step, t, inst.a, 0});
    Operand shift = Operand::imm(log2_of(size));
    if (by > 0) {
      inst = {Op::shr, inst.dst, t, shift, 0};
      return;
    }
    kept_.push_back({Op::shr, *step, t, shift, 0});
    inst = {Op::neg, inst.dst, t, Operand::none(), 0};
  }

  // An extension of what is extended, or masked, already.
  void extend(Inst& inst) {
    const Inst* of = definition(inst.a);
    if (of == nullptr) return;
    const int64_t bits = size_of_width(inst.b.value);
    if (of->op == Op::and_ && is_imm(of->b) && (~of->b.value & ((int64_t{1} << bits) - 1)) == 0)
      inst.a = of->a;
    if (of->op != Op::extend) return;
    const int64_t inner = size_of_width(of->b.value);
    const bool keeps_value = of->b.value < 0 || inst.b.value > 0;  // a wider one changes nothing
    if (bits <= inner)
      inst.a = of->a;
    else if (keeps_value)
      inst = {Op::copy, inst.dst, inst.a, Operand::none(), 0};
  }

  // A comparison with a constant, through what the other side was computed from.
  void compare(Inst& inst) {
    bool equality = inst.op == Op::eq || inst.op == Op::ne;
    const Inst* of = definition(inst.a);
    if (of == nullptr || !equality) return;
    int64_t with = inst.b.value;
    if (const Comparison* row = comparison(of->op); row && (with == 0 || with == 1)) {
      bool same = (inst.op == Op::eq) == (with == 1);
      inst = same ? Inst{Op::copy, inst.dst, inst.a, Operand::none(), 0}
                  : Inst{row->inverted, inst.dst, of->a, of->b, 0};
    } else if ((of->op == Op::add || of->op == Op::xor_) && is_imm(of->b)) {
      int64_t other = of->b.value;
      inst = {inst.op, inst.dst, of->a,
              Operand::imm(*ir::evaluate(of->op == Op::add ? Op::sub : Op::xor_, with, other)), 0};
    } else if ((of->op == Op::sub || of->op == Op::xor_) && with == 0) {
      inst = {inst.op, inst.dst, of->a, of->b, 0};
    } else if (of->op == Op::neg) {
      inst = {inst.op, inst.dst, of->a, Operand::imm(negated(with)), 0};
    }
  }

  // c = c + e where c is what it was when it was read.
  void add_in_place(Inst& inst) {
    const Inst* sum = definition(inst.a);
    if (sum == nullptr || sum->op != Op::add) return;
    for (auto [read, amount] : {std::pair(sum->a, sum->b), std::pair(sum->b, sum->a)}) {
      const Inst* load = definition(read);
      if (load == nullptr || load->op != Op::load || load->index != inst.index) continue;
      inst = {Op::add_cell, ir::kNoTemp, amount, Operand::none(), inst.index};
      return;
    }
  }

  // Notes the facts that hold behind the instruction.
  void note(const Inst& inst) {
    const ir::OpInfo& rule = ir::info(inst.op);
    auto& made = made_.now();
    bool writes_cell = !rule.defines && rule.field == ir::FieldRule::CELL;
    if (writes_cell || inst.op == Op::call)
      std::erase_if(made, [&](const auto& entry) {
        return entry.second.op == Op::load && (inst.op == Op::call || entry.second.index == inst.index);
      });
    if (!rule.defines) return;
    Operand written = Operand::temp(inst.dst);
    made.erase(inst.dst);
    std::erase_if(made, [&](const auto& e) { return e.second.a == written || e.second.b == written; });
    bool reads_itself = inst.a == written || inst.b == written;
    if (made.size() >= kMaxFacts) made.clear();
    if (!reads_itself) made[inst.dst] = inst;
  }

  ir::Snippet& snippet_;
  std::vector<Inst> kept_;
  Facts<ir::Temp, Inst> made_;
};

}  // namespace

void strength_reduction(ir::Snippet& snippet) {
  Reducer(snippet).run();
}

}  // namespace mdl::passes
