// The half of the tree building that both definitions and code need (build_code.cpp).
#pragma once

#include "compiler/parse/antlr.h"

namespace mdl::parser {

class CodeBuilder {
 public:
  CodeBuilder(const Source& source, Standard standard, Diagnostics& diagnostics)
      : source_(source), standard_(standard), diagnostics_(diagnostics) {}

  ast::Name name(antlr4::ParserRuleContext* context) const;
  std::string unquoted(Span string) const;
  int64_t integer(MdlParser::NumberContext* context, bool negative);  // reports what does not fit

  ast::Expr place(MdlParser::PlaceContext* context);
  ast::Expr expr(MdlParser::ExprContext* context);
  void add_code(std::vector<ast::CodeStatement>& body,
                MdlParser::CodeContext* context);  // `;` alone adds nothing

 private:
  ast::ExprPtr child(MdlParser::ExprContext* context);
  ast::CodeStatementPtr branch(MdlParser::CodeContext* context);
  ast::Expr expr_of_kind(MdlParser::ExprContext* context);
  ast::Expr name_use(antlr4::ParserRuleContext* context) const;
  ast::Expr number(MdlParser::NumberContext* context, bool negative);
  ast::Expr prefix(MdlParser::PrefixExprContext* context);
  ast::Expr binary(MdlParser::BinaryExprContext* context);
  ast::Expr assign(MdlParser::AssignExprContext* context);
  ast::Expr call(MdlParser::CallExprContext* context);
  void extension(Span span, std::string_view what);  // an error under --std=classic

  const Source& source_;
  Standard standard_;
  Diagnostics& diagnostics_;
  size_t depth_ = 0;       // of nested expr()
  bool too_deep_ = false;  // reported: once a file
};

}  // namespace mdl::parser
