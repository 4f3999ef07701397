#include "compiler/ir/bound.h"

#include <algorithm>
#include <string_view>

#include "compiler/ir/op_info.h"

namespace mdl::ir {
namespace {

struct Operator {
  std::string_view text;
  Op op;
};
constexpr Operator kBinary[] = {
    {"+", Op::add}, {"-", Op::sub},  {"*", Op::mul},  {"/", Op::div},  {"&", Op::and_},
    {"|", Op::or_}, {"^", Op::xor_}, {"<<", Op::shl}, {">>", Op::shr}, {"==", Op::eq},
    {"!=", Op::ne}, {"<", Op::lt},   {"<=", Op::le},  {">", Op::gt},   {">=", Op::ge},
};

int64_t remainder(int64_t a, int64_t b) {
  return *evaluate(Op::sub, a, *evaluate(Op::mul, *evaluate(Op::div, a, b), b));
}

bool is_text(const format::Expr& expr) {
  return expr.kind == format::ExprKind::string || expr.kind == format::ExprKind::field;
}

}  // namespace

int64_t bound_value(const format::Expr& expr, const std::function<int64_t(const format::Expr&)>& leaf) {
  using format::ExprKind;
  if (expr.kind == ExprKind::integer) return expr.number;
  bool operates = expr.kind == ExprKind::unary || expr.kind == ExprKind::binary;
  if (!operates || std::any_of(expr.operands.begin(), expr.operands.end(), is_text)) return leaf(expr);
  int64_t a = bound_value(expr.operands.at(0), leaf);
  if (expr.kind == ExprKind::unary)
    return expr.text == "!" ? int64_t{a == 0} : expr.text == "~" ? ~a : *evaluate(Op::neg, a, 0);
  int64_t b = bound_value(expr.operands.at(1), leaf);
  if (expr.text == "&&") return a != 0 && b != 0;
  if (expr.text == "||") return a != 0 || b != 0;
  if (expr.text == "%") return remainder(a, b);
  for (const Operator& row : kBinary)
    if (row.text == expr.text) return *evaluate(row.op, a, b);
  return leaf(expr);
}

}  // namespace mdl::ir
