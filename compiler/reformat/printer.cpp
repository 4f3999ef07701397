// The style: a field or statement a line, blocks on lines of their own, lists of values and
// code on one line where they fit, and so the body of a foreach or an if that is no block.
#include "compiler/reformat/printer.h"

#include <algorithm>

#include "compiler/reformat/lines.h"
#include "compiler/reformat/reformat.h"

namespace mdl {
namespace {

// After one of these a long line may be broken.
constexpr std::string_view kBreaks[] = {",",  "+",  "-", "*", "/", "%",  "<<", ">>", "<",  "<=", ">", ">=",
                                        "==", "!=", "&", "^", "|", "&&", "||", "=",  "+=", "-=", "*="};

class Printer {
 public:
  explicit Printer(const std::vector<Item>& items) : items_(items) {
    size_t comments = 0;
    for (const Item& item : items) comments_.push_back(comments += item.comments.size());
  }

  std::string print() {
    size_t end = items_.size() - 1;
    sequence(0, end);
    lead(end);
    return lines_.take();
  }

 private:
  void sequence(size_t begin, size_t end) {
    for (size_t i = begin; i < end;) i = unit(i);
  }

  // Prints a token with what belongs to it: brackets and bodies whole. Returns the next one.
  size_t unit(size_t i) {
    if (is_else(i) && (lines_.last() != "}" || lines_.ends_with_comment())) lines_.end_line();
    lead(i);
    if (items_[i].mark.body_end != 0 && body_ != i) return body(i);
    if (is(i, "{")) return is_list(i) ? list(i) : block(i);
    if (is(i, "(*")) return code(i);
    add(i);
    if (is(i, ";")) lines_.end_line();
    return i + 1;
  }

  // The body of a foreach or an if: on its line if it fits, else on lines of its own.
  size_t body(size_t i) {
    size_t end = i;
    while (end + 1 < items_.size() && items_[end].begin < items_[i].mark.body_end) end++;
    if (fits(i, end)) {
      add_all(i, end);
    } else {
      lines_.end_line();
      level_++;
      body_ = i;
      sequence(i, end);
      level_--;
    }
    lines_.end_line();
    return end;
  }

  size_t block(size_t open) {
    size_t next = enclosed(open);
    bool attached = (is(next, ";") && items_[next].comments.empty()) || is_else(next);
    if (!attached) lines_.end_line();
    after_block_ = level_ == 0;
    return next;
  }

  size_t list(size_t open) {
    size_t next = items_[open].match + 1;
    if (fits(open, next)) {
      add_all(open, next);
    } else {
      size_t before = lines_.set_continuation(0);
      enclosed(open);
      lines_.set_continuation(before);
    }
    if (!is(next, ";")) lines_.end_line();
    return next;
  }

  size_t code(size_t open) {
    size_t next = items_[open].match + 1;
    if (fits(open, next))
      add_all(open, next);
    else
      enclosed(open);
    lines_.end_line();
    return next;
  }

  // A bracket at the end of its line, what it encloses, and its partner on a line of its own.
  size_t enclosed(size_t open) {
    size_t close = items_[open].match;
    add(open);
    lines_.end_line();
    level_++;
    sequence(open + 1, close);
    lead(close);
    lines_.end_line();
    level_--;
    add(close);
    return close + 1;
  }

  // Prints the comments, or an empty line, before a token.
  void lead(size_t i) {
    const Item& item = items_[i];
    bool apart = item.mark.definition && after_block_;
    if (item.mark.definition) after_block_ = false;
    for (const Comment& comment : item.comments) {
      if (!comment.own_line) {
        lines_.comment_behind(comment.text, level_);
      } else {
        lines_.comment_line(comment.text, level_, comment.after_blank || apart);
        apart = false;
      }
    }
    bool closes = is(i, "}") || is(i, "*)") || item.text.empty();
    if (lines_.at_begin() && !closes && (item.after_blank || apart)) lines_.empty_line();
  }

  void add(size_t i) {
    bool space = i > 0 && has_space_between(items_[i - 1], items_[i]);
    lines_.token(items_[i].text, space, i > 0 && breaks_after(items_[i - 1]), level_);
  }
  void add_all(size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) add(i);
  }

  bool breaks_after(const Item& item) const {
    bool is_operator = item.kind == TokenKind::mark && !item.mark.prefix;
    bool in_path = item.in_path || item.mark.path_end != 0;
    return is_operator && !in_path &&
           std::find(std::begin(kBreaks), std::end(kBreaks), item.text) != std::end(kBreaks);
  }

  bool is(size_t i, std::string_view text) const {
    return items_[i].kind == TokenKind::mark && items_[i].text == text;
  }
  bool is_else(size_t i) const {
    return items_[i].text == "else" && i + 1 < items_.size() && items_[i + 1].mark.otherwise;
  }

  // Braces around values, or around nothing.
  bool is_list(size_t open) const {
    for (size_t i = open + 1; i < items_[open].match; i++)
      if (is(i, ";") || is(i, "{") || is(i, "(*")) return false;
    return true;
  }

  // Whether the tokens can follow on this line: no comment among them, no block of statements.
  bool fits(size_t begin, size_t end) const {
    if (comments_[end - 1] != comments_[begin]) return false;
    size_t column = lines_.column(level_);
    bool in_code = false;
    for (size_t i = begin; i < end; i++) {
      column += items_[i].text.size() + (i > 0 && has_space_between(items_[i - 1], items_[i]));
      in_code = in_code || is(i, "(*");
      if (column > kReformatColumns || (!in_code && is(i, "{") && !is_list(i))) return false;
    }
    return true;
  }

  const std::vector<Item>& items_;
  std::vector<size_t> comments_;  // before item i, and before all items before it
  Lines lines_;
  size_t level_ = 0;
  size_t body_ = SIZE_MAX;    // the body that is being printed on lines of its own
  bool after_block_ = false;  // the definition before ended with a block
};

}  // namespace

std::string print(const std::vector<Item>& items) {
  return Printer(items).print();
}

}  // namespace mdl
