// The only header that includes ANTLR's; only compiler/parse/*.cpp includes it. ANTLR's
// exceptions and types end at parse().
#pragma once

#include <antlr4-runtime.h>

#include "MdlLexer.h"
#include "MdlParser.h"
#include "compiler/ast/ast.h"
#include "compiler/parse/parse.h"
#include "compiler/support/diagnostics.h"

namespace mdl::parser {

using grammar::MdlLexer;
using grammar::MdlParser;

// A source as a stream of bytes. ANTLR's own stream decodes to code points, and throws for
// what is not UTF-8; with bytes, token indices are offsets in the source.
class ByteStream : public antlr4::CharStream {
 public:
  explicit ByteStream(const Source& source);

  void consume() override;
  size_t LA(ssize_t i) override;
  ssize_t mark() override { return -1; }
  void release(ssize_t) override {}
  size_t index() override { return index_; }
  void seek(size_t index) override { index_ = index; }
  size_t size() override { return text_.size(); }
  std::string getSourceName() const override { return {}; }
  std::string getText(const antlr4::misc::Interval& interval) override;
  std::string toString() const override { return std::string(text_); }

 private:
  std::string_view text_;
  size_t index_ = 0;
};

// The lexer, which ends the file where there are more tokens than parse() accepts.
class BoundedLexer : public MdlLexer {
 public:
  using MdlLexer::MdlLexer;
  std::unique_ptr<antlr4::Token> nextToken() override;
  bool ended_early() const { return count_ > kMaxTokens; }

 private:
  size_t count_ = 0;
};

// The span of a token, of a subtree.
Span span_of(const Source& source, antlr4::Token* token);
Span span_of(const Source& source, antlr4::ParserRuleContext* context);

inline constexpr std::string_view kEndOfQuery = "the end of the query";

// Reports syntax errors in our words and resynchronizes the parser (recovery.cpp).
// `end`: what the end of the text is called.
std::shared_ptr<antlr4::ANTLRErrorStrategy> make_error_strategy(const Source& source, std::string_view end,
                                                                Diagnostics& diagnostics);

// Thrown through the parser when the source is nested too deeply for the stack.
struct TooDeep {
  antlr4::Token* at;
};

// Thrown through the parser when it has found so many errors that nobody reads them, and it
// would take long to find the rest.
struct TooManyErrors {};

// The tree of the definitions that have no syntax error (build.cpp, build_code.cpp).
// `wrong_tokens` are those that have been reported by themselves.
ast::File build(const Source& source, Standard standard, MdlParser::FileContext* file,
                const std::vector<Span>& wrong_tokens, Diagnostics& diagnostics);

// The tokens of a query, where a path, or a name with `::`, is one (build_query.cpp).
std::vector<std::unique_ptr<antlr4::Token>> join_long_names(const Source& source, BoundedLexer& lexer);

// Precondition: the tree has no syntax error.
ast::Query build_query(const Source& source, MdlParser::QueryContext* query, Diagnostics& diagnostics);

}  // namespace mdl::parser
