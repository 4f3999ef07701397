#include "compiler/reformat/lines.h"

#include "compiler/reformat/reformat.h"

namespace mdl {

void Lines::token(std::string_view text, bool space, bool may_break, size_t level) {
  if (ended_ || ends_with_comment()) flush();
  bool first = line_.empty();
  if (first) {
    indent_ = column(level);
    width_ = indent_;
  }
  line_.push_back({text, space && !first, may_break && !first, false});
  width_ += line_.back().width();
}

void Lines::comment_behind(std::string_view text, size_t level) {
  if (line_.empty() || ends_with_comment()) return comment_line(text, level, false);
  line_.push_back({text, false, false, true});
}

void Lines::comment_line(std::string_view text, size_t level, bool empty_line_before) {
  flush();
  if (empty_line_before) empty_line();
  out_.append(column(level), ' ').append(text) += '\n';
}

void Lines::empty_line() {
  flush();
  bool opened = out_.empty() || out_.ends_with("{\n") || out_.ends_with("(*\n") || out_.ends_with("\n\n");
  if (!opened && !continued_) out_ += '\n';
}

size_t Lines::set_continuation(size_t columns) {
  return std::exchange(continuation_, columns);
}

size_t Lines::column(size_t level) const {
  if (!line_.empty() && !ended_ && !ends_with_comment()) return width_;
  bool goes_on = line_.empty() ? continued_ : !ended_;
  return level * kIndent + (goes_on ? continuation_ : 0);
}

std::string Lines::take() {
  flush();
  return std::move(out_);
}

void Lines::flush() {
  if (line_.empty()) return;
  write();
  continued_ = !ended_;
  ended_ = false;
  line_.clear();
}

// Tokens that belong together are written together; before such a group, a line that would
// be too long is broken.
void Lines::write() {
  out_.append(indent_, ' ');
  size_t column = indent_;
  for (size_t i = 0; i < line_.size();) {
    size_t width = line_[i].width(), end = i + 1;
    for (; end < line_.size() && !line_[end].may_break && !line_[end].comment; end++)
      width += line_[end].width();
    bool breaks = line_[i].may_break && column + width > kReformatColumns;
    if (breaks) {
      column = indent_ + continuation_;
      out_.append("\n").append(column, ' ');
    }
    for (bool first = breaks; i < end; i++, first = false) {
      if (line_[i].space && !first) out_ += ' ';
      if (line_[i].comment) out_ += "  ";
      out_ += line_[i].text;
    }
    column += width;
  }
  out_ += '\n';
}

}  // namespace mdl
