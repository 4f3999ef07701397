#include "compiler/parse/tokens.h"

#include "compiler/parse/antlr.h"

namespace mdl {
namespace {

using L = parser::MdlLexer;

TokenKind kind_of(size_t type) {
  if (type >= L::KW_LIST && type <= L::KW_FALSE) return TokenKind::keyword;
  switch (type) {
    case L::ID:
      return TokenKind::name;
    case L::INT:
    case L::HEX:
    case L::FLOAT:
      return TokenKind::number;
    case L::STRING:
      return TokenKind::string;
    case L::BAD_NUMBER:
    case L::OPEN_STRING:
    case L::STRAY:
      return TokenKind::wrong;
    default:
      return TokenKind::mark;
  }
}

}  // namespace

std::vector<Token> tokenize(const Source& source) {
  std::vector<Token> tokens;
  if (source.text().size() > Source::kMaxBytes) return tokens;
  parser::ByteStream bytes(source);
  parser::BoundedLexer lexer(&bytes);
  lexer.removeErrorListeners();
  for (;;) {
    std::unique_ptr<antlr4::Token> token = lexer.nextToken();
    if (token->getType() == antlr4::Token::EOF) return tokens;
    tokens.push_back({kind_of(token->getType()), parser::span_of(source, token.get())});
  }
}

}  // namespace mdl
