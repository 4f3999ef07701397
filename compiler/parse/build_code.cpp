// ANTLR's tree to ours: expressions and code. Extensions are refused here under
// --std=classic, where their positions are at hand.
#include <charconv>
#include <limits>

#include "compiler/parse/build.h"

namespace mdl::parser {
namespace {

using P = MdlParser;

constexpr size_t kMaxDepth = 1000;    // of an expression's tree, so that walks over it fit the stack
constexpr size_t kMaxSelectors = 32;  // `a.b[0].c`: none has a meaning with more than a few

ast::BinaryOp binary_op(size_t token) {
  switch (token) {
    case P::PLUS:
      return ast::BinaryOp::add;
    case P::MINUS:
      return ast::BinaryOp::sub;
    case P::STAR:
      return ast::BinaryOp::mul;
    case P::SLASH:
      return ast::BinaryOp::div;
    case P::PERCENT:
      return ast::BinaryOp::rem;
    case P::SHL:
      return ast::BinaryOp::shl;
    case P::SHR:
      return ast::BinaryOp::shr;
    case P::LT:
      return ast::BinaryOp::lt;
    case P::LE:
      return ast::BinaryOp::le;
    case P::GT:
      return ast::BinaryOp::gt;
    case P::GE:
      return ast::BinaryOp::ge;
    case P::EQ:
      return ast::BinaryOp::eq;
    case P::NE:
      return ast::BinaryOp::ne;
    case P::AMP:
      return ast::BinaryOp::bit_and;
    case P::CARET:
      return ast::BinaryOp::bit_xor;
    case P::PIPE:
      return ast::BinaryOp::bit_or;
    case P::AND:
      return ast::BinaryOp::and_;
    default:
      return ast::BinaryOp::or_;
  }
}

bool is_extension(ast::BinaryOp op) {
  using enum ast::BinaryOp;
  return op == rem || op == shl || op == shr || op == bit_and || op == bit_xor || op == bit_or;
}

ast::AssignOp assign_op(size_t token) {
  switch (token) {
    case P::ASSIGN:
      return ast::AssignOp::set;
    case P::ADD_ASSIGN:
      return ast::AssignOp::add;
    case P::SUB_ASSIGN:
      return ast::AssignOp::sub;
    default:
      return ast::AssignOp::mul;
  }
}

}  // namespace

void CodeBuilder::extension(Span span, std::string_view what) {
  if (standard_ == Standard::classic)
    diagnostics_.report(DiagnosticCode::extension, span, what).hint("--std=mdl26, the default, has it");
}

ast::Name CodeBuilder::name(antlr4::ParserRuleContext* context) const {
  Span span = span_of(source_, context);
  return {std::string(source_.text(span)), span};
}

std::string CodeBuilder::unquoted(Span string) const {
  std::string_view text = source_.text(string);
  return std::string(text.substr(1, text.size() - 2));
}

// Decimal: what an int64_t holds. Hexadecimal: 64 bits, which wrap.
int64_t CodeBuilder::integer(MdlParser::NumberContext* context, bool negative) {
  Span span = span_of(source_, context);
  std::string_view text = source_.text(span);
  bool hex = context->HEX() != nullptr;
  if (hex) {
    extension(span, "a hexadecimal number");
    text.remove_prefix(2);
  }
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (error != std::errc() || (!hex && value > most))
    diagnostics_.report(DiagnosticCode::big_number, span, printable(source_.text(span)));
  return static_cast<int64_t>(negative ? -value : value);
}

ast::Expr CodeBuilder::number(MdlParser::NumberContext* context, bool negative) {
  Span span = span_of(source_, context);
  if (context->FLOAT()) return {span, ast::Float{(negative ? "-" : "") + std::string(source_.text(span))}};
  return {span, ast::Integer{integer(context, negative)}};
}

ast::Expr CodeBuilder::name_use(antlr4::ParserRuleContext* context) const {
  ast::Name n = name(context);
  return {n.span, ast::NameUse{std::move(n.text)}};
}

ast::Expr CodeBuilder::place(MdlParser::PlaceContext* context) {
  ast::Expr result = name_use(context->word());
  if (context->selector().size() > kMaxSelectors) {
    diagnostics_.report(DiagnosticCode::too_deep, span_of(source_, context), kMaxSelectors, "selectors");
    return result;
  }
  for (MdlParser::SelectorContext* selector : context->selector()) {
    Span span = join(result.span, span_of(source_, selector));
    auto object = std::make_unique<ast::Expr>(std::move(result));
    if (auto* field = selector->name())
      result = ast::Expr{span, ast::Field{std::move(object), name(field)}};
    else
      result = ast::Expr{span, ast::Index{std::move(object), child(selector->expr())}};
  }
  return result;
}

ast::ExprPtr CodeBuilder::child(MdlParser::ExprContext* context) {
  return std::make_unique<ast::Expr>(expr(context));
}

ast::Expr CodeBuilder::prefix(MdlParser::PrefixExprContext* context) {
  Span span = span_of(source_, context);
  Span op_span = span_of(source_, context->op);
  switch (context->op->getType()) {
    case P::INC:
      extension(op_span, "'++' before its operand");
      return {span, ast::Step{1, true, child(context->expr())}};
    case P::DEC:
      extension(op_span, "'--'");
      return {span, ast::Step{-1, true, child(context->expr())}};
    case P::AMP:
      return {span, ast::Unary{ast::UnaryOp::address, child(context->expr())}};
    case P::NOT:
      extension(op_span, "'!'");
      return {span, ast::Unary{ast::UnaryOp::not_, child(context->expr())}};
    case P::TILDE:
      extension(op_span, "'~'");
      return {span, ast::Unary{ast::UnaryOp::complement, child(context->expr())}};
  }
  // A literal takes its sign in: -9223372036854775808 has no positive counterpart.
  if (auto* literal = dynamic_cast<P::NumberExprContext*>(context->expr())) {
    ast::Expr value = number(literal->number(), true);
    value.span = span;
    return value;
  }
  return {span, ast::Unary{ast::UnaryOp::negate, child(context->expr())}};
}

ast::Expr CodeBuilder::binary(MdlParser::BinaryExprContext* context) {
  Span op_span = span_of(source_, context->op);
  ast::BinaryOp op = binary_op(context->op->getType());
  if (is_extension(op)) extension(op_span, fmt::format("'{}'", ast::spelling(op)));
  return {span_of(source_, context),
          ast::Binary{op, op_span, child(context->expr(0)), child(context->expr(1))}};
}

ast::Expr CodeBuilder::assign(MdlParser::AssignExprContext* context) {
  Span op_span = span_of(source_, context->op);
  ast::AssignOp op = assign_op(context->op->getType());
  if (op == ast::AssignOp::mul) extension(op_span, "'*='");
  return {span_of(source_, context),
          ast::Assign{op, op_span, child(context->expr(0)), child(context->expr(1))}};
}

ast::Expr CodeBuilder::call(MdlParser::CallExprContext* context) {
  std::vector<MdlParser::ExprContext*> parts = context->expr();
  ast::Call call{child(parts[0]), {}};
  for (size_t i = 1; i < parts.size(); i++) call.args.push_back(expr(parts[i]));
  return {span_of(source_, context), std::move(call)};
}

ast::Expr CodeBuilder::expr(MdlParser::ExprContext* context) {
  Span span = span_of(source_, context);
  if (depth_ == kMaxDepth) {
    if (!too_deep_) diagnostics_.report(DiagnosticCode::too_deep, span, kMaxDepth, "operators");
    too_deep_ = true;
    return {span, ast::Integer{0}};
  }
  depth_++;
  ast::Expr result = expr_of_kind(context);
  depth_--;
  return result;
}

ast::Expr CodeBuilder::expr_of_kind(MdlParser::ExprContext* context) {
  Span span = span_of(source_, context);
  if (auto* e = dynamic_cast<P::NameExprContext*>(context)) return name_use(e->word());
  if (auto* e = dynamic_cast<P::NumberExprContext*>(context)) return number(e->number(), false);
  if (auto* e = dynamic_cast<P::StringExprContext*>(context))
    return {span, ast::String{unquoted(span_of(source_, e->string()))}};
  if (auto* e = dynamic_cast<P::BooleanExprContext*>(context))
    return {span, ast::Boolean{e->boolean()->KW_TRUE() != nullptr}};
  if (auto* e = dynamic_cast<P::ParenExprContext*>(context)) return expr(e->expr());
  if (auto* e = dynamic_cast<P::FieldExprContext*>(context))
    return {span, ast::Field{child(e->expr()), name(e->name())}};
  if (auto* e = dynamic_cast<P::IndexExprContext*>(context))
    return {span, ast::Index{child(e->expr(0)), child(e->expr(1))}};
  if (auto* e = dynamic_cast<P::CallExprContext*>(context)) return call(e);
  if (auto* e = dynamic_cast<P::PrefixExprContext*>(context)) return prefix(e);
  if (auto* e = dynamic_cast<P::BinaryExprContext*>(context)) return binary(e);
  if (auto* e = dynamic_cast<P::AssignExprContext*>(context)) return assign(e);
  auto* step = dynamic_cast<P::StepExprContext*>(context);
  bool up = step->op->getType() == P::INC;
  if (!up) extension(span_of(source_, step->op), "'--'");
  return {span, ast::Step{up ? 1 : -1, false, child(step->expr())}};
}

ast::CodeStatementPtr CodeBuilder::branch(MdlParser::CodeContext* context) {
  std::vector<ast::CodeStatement> body;
  add_code(body, context);
  if (body.size() == 1) return std::make_unique<ast::CodeStatement>(std::move(body[0]));
  return std::make_unique<ast::CodeStatement>(
      ast::CodeStatement{span_of(source_, context), ast::BlockCode{}});
}

void CodeBuilder::add_code(std::vector<ast::CodeStatement>& body, MdlParser::CodeContext* context) {
  Span span = span_of(source_, context);
  if (auto* e = dynamic_cast<P::ExprCodeContext*>(context)) {
    body.push_back({span, ast::ExprCode{expr(e->expr())}});
  } else if (auto* block = dynamic_cast<P::BlockCodeContext*>(context)) {
    extension(span_of(source_, block->LBRACE()->getSymbol()), "a block of code");
    ast::BlockCode inner;
    for (auto* c : block->code()) add_code(inner.body, c);
    body.push_back({span, std::move(inner)});
  } else if (auto* test = dynamic_cast<P::IfCodeContext*>(context)) {
    ast::IfCode code{expr(test->expr()), branch(test->code(0)), nullptr};
    if (auto* otherwise = test->KW_ELSE()) {
      extension(span_of(source_, otherwise->getSymbol()), "'else'");
      code.otherwise = branch(test->code(1));
    }
    body.push_back({span, std::move(code)});
  }
}

}  // namespace mdl::parser
