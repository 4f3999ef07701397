#include "compiler/sema/known.h"

#include "compiler/ir/op_info.h"
#include "compiler/sema/operators.h"

namespace mdl::sema {
namespace {

std::optional<int64_t> known_unary(const ast::Unary& u) {
  std::optional<int64_t> operand = known_value(*u.operand);
  if (!operand) return std::nullopt;
  switch (u.op) {
    case ast::UnaryOp::negate:
      return ir::evaluate(ir::Op::neg, *operand, 0);
    case ast::UnaryOp::not_:
      return *operand == 0;
    case ast::UnaryOp::complement:
      return ~*operand;
    case ast::UnaryOp::address:
      break;
  }
  return std::nullopt;
}

std::optional<int64_t> known_binary(const ast::Binary& b) {
  std::optional<int64_t> left = known_value(*b.left);
  std::optional<int64_t> right = known_value(*b.right);
  // One side may be enough.
  if (b.op == ast::BinaryOp::and_ && ((left && *left == 0) || (right && *right == 0))) return 0;
  if (b.op == ast::BinaryOp::or_ && ((left && *left != 0) || (right && *right != 0))) return 1;
  if (!left || !right) return std::nullopt;
  if (b.op == ast::BinaryOp::and_) return 1;
  if (b.op == ast::BinaryOp::or_) return 0;
  if (std::optional<ir::Op> op = operation(b.op)) return ir::evaluate(*op, *left, *right);
  if (*right == 0) return *left;  // a % 0 is a
  return *right == -1 ? 0 : *left % *right;
}

}  // namespace

std::optional<int64_t> known_value(const ast::Expr& e) {
  return std::visit(ast::Overloaded{
                        [](const ast::Integer& i) { return std::optional(i.value); },
                        [](const ast::Boolean& b) { return std::optional<int64_t>(b.value); },
                        [](const ast::Unary& u) { return known_unary(u); },
                        [](const ast::Binary& b) { return known_binary(b); },
                        [](const auto&) { return std::optional<int64_t>(); },
                    },
                    e.node);
}

void warn_if_decided(const ast::Expr& condition, Diagnostics& diagnostics) {
  if (std::optional<int64_t> value = known_value(condition))
    diagnostics.report(DiagnosticCode::decided_condition, condition.span, *value != 0 ? "true" : "false");
}

}  // namespace mdl::sema
