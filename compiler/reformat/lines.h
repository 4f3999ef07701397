// Lines out of tokens and comments: indentation, where a long line is broken, where a comment
// stands, and empty lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mdl {

constexpr size_t kIndent = 2;        // columns of a level
constexpr size_t kContinuation = 4;  // columns more, where a line goes on after a break

class Lines {
 public:
  // A token, with a blank before it or not, which may begin a line after a break or not. It
  // begins a line of that level if the line before it has ended.
  void token(std::string_view text, bool space, bool may_break, size_t level);

  void comment_behind(std::string_view text, size_t level);  // at the end of this line
  void comment_line(std::string_view text, size_t level, bool empty_line_before);

  void end_line() { (line_.empty() ? continued_ : ended_) = !line_.empty(); }
  void empty_line();  // if a line begins here, and not the first of a block

  // Sets the indentation of lines that go on, from now on. Returns the one before.
  size_t set_continuation(size_t columns);

  bool at_begin() const { return !continued_ && (line_.empty() || ended_); }
  bool ends_with_comment() const { return !line_.empty() && line_.back().comment; }
  std::string_view last() const { return line_.empty() ? std::string_view() : line_.back().text; }
  size_t column(size_t level) const;  // of what is added next
  std::string take();

 private:
  struct Piece {
    std::string_view text;
    bool space = false;
    bool may_break = false;
    bool comment = false;
    size_t width() const { return text.size() + space; }
  };

  void flush();
  void write();

  std::string out_;
  std::vector<Piece> line_;
  size_t indent_ = 0;  // columns, of line_
  size_t width_ = 0;   // indentation and tokens of line_
  size_t continuation_ = kContinuation;
  bool ended_ = false;      // only a comment may be added to line_
  bool continued_ = false;  // what comes next goes on with a line that a comment interrupted
};

}  // namespace mdl
