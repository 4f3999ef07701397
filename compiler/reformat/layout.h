// A source as the formatter sees it: its tokens, each with what the tree knows about it and
// with the comments before it.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/parse/tokens.h"
#include "compiler/reformat/marks.h"

namespace mdl {

struct Comment {
  std::string_view text;     // "// ..." without blanks at its end
  bool own_line = false;     // nothing but blanks before it on its line
  bool after_blank = false;  // an empty line is before it
};

struct Item {
  std::string_view text;
  TokenKind kind = TokenKind::mark;
  TokenMark mark;
  std::vector<Comment> comments;  // between the token before and this one
  bool after_blank = false;       // an empty line is right before it
  bool in_path = false;           // and not the first of the path
  size_t match = 0;               // of `{` and `(*`: the index of the closing one
  uint32_t begin = 0;
};

// The last item is the end of the file: it has no text, and the comments that nothing follows.
std::vector<Item> items_of(const Source& source, const TokenMarks& marks);

// Whether a blank stands between two tokens of one line.
bool has_space_between(const Item& left, const Item& right);

}  // namespace mdl
