#include "compiler/sema/value_types.h"

namespace mdl::sema {
namespace {

bool is_fact(const format::Expr& expr, format::ParameterFact fact) {
  return expr.kind == format::ExprKind::value_type && expr.number == static_cast<int64_t>(fact);
}

}  // namespace

std::vector<format::Expr> value_masks(const ir::Snippet& snippet) {
  std::vector<format::Expr> masks;
  for (const format::Expr& constant : snippet.constants)
    if (is_fact(constant, format::ParameterFact::mask)) masks.push_back(constant);
  return masks;
}

ir::Snippet without_extension(const ir::Snippet& snippet) {
  ir::Snippet whole = snippet;
  for (ir::Inst& inst : whole.insts) {
    if (inst.op != ir::Op::constant) continue;
    const format::Expr& constant = whole.constants[inst.index];
    const bool mask = is_fact(constant, format::ParameterFact::mask);
    if (mask || is_fact(constant, format::ParameterFact::sign))
      inst = {ir::Op::copy, inst.dst, ir::Operand::imm(mask ? -1 : 0), ir::Operand::none(), 0};
  }
  return whole;
}

}  // namespace mdl::sema
