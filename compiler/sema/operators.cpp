#include "compiler/sema/operators.h"

namespace mdl::sema {

std::optional<ir::Op> operation(ast::BinaryOp op) {
  using ir::Op;
  switch (op) {
    case ast::BinaryOp::add:
      return Op::add;
    case ast::BinaryOp::sub:
      return Op::sub;
    case ast::BinaryOp::mul:
      return Op::mul;
    case ast::BinaryOp::div:
      return Op::div;
    case ast::BinaryOp::lt:
      return Op::lt;
    case ast::BinaryOp::le:
      return Op::le;
    case ast::BinaryOp::gt:
      return Op::gt;
    case ast::BinaryOp::ge:
      return Op::ge;
    case ast::BinaryOp::eq:
      return Op::eq;
    case ast::BinaryOp::ne:
      return Op::ne;
    case ast::BinaryOp::bit_and:
      return Op::and_;
    case ast::BinaryOp::bit_xor:
      return Op::xor_;
    case ast::BinaryOp::bit_or:
      return Op::or_;
    case ast::BinaryOp::shl:
      return Op::shl;
    case ast::BinaryOp::shr:
      return Op::shr;
    case ast::BinaryOp::rem:
    case ast::BinaryOp::and_:
    case ast::BinaryOp::or_:
      break;
  }
  return std::nullopt;
}

}  // namespace mdl::sema
