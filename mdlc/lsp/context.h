// Where in a program the cursor is, by the tokens before it: what is being typed is seldom a
// program yet, so there is no tree to ask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/parse/tokens.h"

namespace mdl::lsp {

enum class Place : uint8_t { nowhere, top, metric, list, tool, values, statements, code };

struct Loop {
  std::string variable;
  std::string list;  // its text
};

struct Context {
  Place place = Place::nowhere;           // nowhere: in a comment or a string
  std::vector<std::string_view> words;    // of the statement or field up to the cursor, less the word at it
  std::vector<Loop> loops;                // around the cursor, outermost first
  std::vector<std::string_view> cells;    // counters that the code here has
  std::vector<std::string_view> selects;  // the path of the constraint around the cursor: "Code", "*", "*"
  std::string object;                     // with words that end in ".": what stands before it
};

Context context_at(const Source& source, uint32_t offset);

}  // namespace mdl::lsp
