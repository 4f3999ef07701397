// The syntax tree's knowledge about single tokens, by their offset in the source. The printer goes through
// tokens; this is all that it needs of the tree.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "compiler/ast/ast.h"

namespace mdl {

struct TokenMark {
  bool prefix = false;      // an operator before its operand, a sign
  bool condition = false;   // the `if` before a condition
  bool definition = false;  // the first of a definition
  bool otherwise = false;   // the `else` branch begins here
  uint32_t path_end = 0;    // a path, /Code/*, begins here and ends there
  uint32_t body_end = 0;    // the branch or loop body that begins here, and is no block, ends there
};

using TokenMarks = std::unordered_map<uint32_t, TokenMark>;

TokenMarks mark_tokens(const ast::File& file, const Source& source);

}  // namespace mdl
