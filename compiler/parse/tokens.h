// A source's words and marks, for tools that look at the text itself: the formatter, the
// language server. The parser has its own stream.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/support/source.h"

namespace mdl {

enum class TokenKind : uint8_t {
  name,
  keyword,  // may stand for a name nearly everywhere
  number,
  string,
  mark,   // operators, brackets and what separates
  wrong,  // what parse() reports: a stray byte, a string or a number that is none
};

struct Token {
  TokenKind kind = TokenKind::wrong;
  Span span;
};

// All tokens in order, without comments, white space and the end of the file. Between two
// tokens there is nothing but white space and comments. Empty for a source that is too large, and no more
// than parse() accepts.
std::vector<Token> tokenize(const Source& source);

}  // namespace mdl
