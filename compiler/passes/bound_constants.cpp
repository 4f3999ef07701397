// The injector computes such an expression once, by the rules of code (docs/language.md): the integers wrap,
// a division by zero yields 0, comparisons yield 0 or 1.
#include "compiler/passes/bound_constants.h"

#include <algorithm>
#include <string_view>

#include "compiler/passes/facts.h"

namespace mdl::passes {
namespace {

using format::Expr;
using format::ExprKind;
using ir::Inst;
using ir::Op;
using ir::Operand;

constexpr size_t kMaxSize = 32;  // of an expression: also bounds its depth

// The operator of a binding-time expression; "" where there is none.
std::string_view spelling(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::sub:
    case Op::neg:
      return "-";
    case Op::mul:
      return "*";
    case Op::div:
      return "/";
    case Op::and_:
      return "&";
    case Op::or_:
      return "|";
    case Op::xor_:
      return "^";
    case Op::shl:
      return "<<";
    case Op::shr:
      return ">>";
    case Op::eq:
      return "==";
    case Op::ne:
      return "!=";
    case Op::lt:
      return "<";
    case Op::le:
      return "<=";
    case Op::gt:
      return ">";
    case Op::ge:
      return ">=";
    default:
      return "";
  }
}

size_t size_of(const Expr& expr) {
  size_t size = 1;
  for (const Expr& operand : expr.operands) size += size_of(operand);
  return size;
}

class Folder {
 public:
  explicit Folder(ir::Snippet& snippet) : snippet_(snippet) {}

  void run() {
    for (Inst& inst : snippet_.insts) {
      known_.enter(inst);
      if (!known_.reached()) continue;
      fold(inst);
      if (ir::info(inst.op).defines) note(inst);
      known_.leave(inst);
    }
  }

 private:
  const uint32_t* constant(const Operand& operand) const {
    if (operand.kind != Operand::Kind::temp) return nullptr;
    const uint32_t* index = known_.find(static_cast<ir::Temp>(operand.value));
    // The cost of a point is known only when all of its code is: the injector cannot compute with it.
    return index && snippet_.constants[*index].kind != ExprKind::cost ? index : nullptr;
  }

  // An operand as an expression; nothing for one of the process.
  std::optional<Expr> expression(const Operand& operand) const {
    if (const uint32_t* index = constant(operand)) return snippet_.constants[*index];
    if (operand.kind != Operand::Kind::immediate) return std::nullopt;
    Expr number;
    number.number = operand.value;
    return number;
  }

  void fold(Inst& inst) {
    std::string_view op = spelling(inst.op);
    bool unary = inst.op == Op::neg;
    if (op.empty() || (constant(inst.a) == nullptr && constant(inst.b) == nullptr)) return;
    std::optional<Expr> a = expression(inst.a), b = unary ? std::nullopt : expression(inst.b);
    if (!a || (!unary && !b)) return;
    Expr whole;
    whole.kind = unary ? ExprKind::unary : ExprKind::binary;
    whole.text = op;
    whole.operands.push_back(std::move(*a));
    if (b) whole.operands.push_back(std::move(*b));
    if (size_of(whole) > kMaxSize) return;
    auto& table = snippet_.constants;
    auto found = std::find(table.begin(), table.end(), whole);
    auto index = static_cast<uint32_t>(found - table.begin());
    if (found == table.end()) table.push_back(std::move(whole));
    inst = {Op::constant, inst.dst, Operand::none(), Operand::none(), index};
  }

  void note(const Inst& inst) {
    const uint32_t* copied = inst.op == Op::copy ? constant(inst.a) : nullptr;
    std::optional<uint32_t> index;
    if (copied != nullptr) index = *copied;
    if (inst.op == Op::constant) index = inst.index;
    known_.now().erase(inst.dst);
    if (index && known_.now().size() < kMaxFacts) known_.now()[inst.dst] = *index;
  }

  ir::Snippet& snippet_;
  Facts<ir::Temp, uint32_t> known_;
};

}  // namespace

void bound_constants(ir::Snippet& snippet) {
  Folder(snippet).run();
}

}  // namespace mdl::passes
