#include "compiler/reformat/layout.h"

#include <algorithm>

namespace mdl {
namespace {

constexpr std::string_view kBlanks = " \t\f\v";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The text between two tokens: white space and comments.
class Gap {
 public:
  Gap(std::string_view text, bool at_begin, Item& item) : text_(text), own_line_(at_begin), item_(item) {}

  void read() {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    while (at_ < text_.size()) {
      if (text_[at_] == '/')
        comment();
      else
        white_space();
    }
    item_.after_blank = lines_ > 1;
  }

 private:
  void white_space() {
    bool line_end = text_[at_] == '\n' || (text_[at_] == '\r' && text_.substr(at_, 2) != "\r\n");
    if (line_end) {
      lines_++;
      own_line_ = true;
    }
    at_++;
  }

  void comment() {
    std::string_view text = text_.substr(at_, text_.find_first_of("\r\n", at_) - at_);
    at_ += text.size();
    text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    item_.comments.push_back({text, own_line_, lines_ > 1});
    lines_ = 0;
    own_line_ = false;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t lines_ = 0;  // line ends since the last token or comment
  bool own_line_;
  Item& item_;
};

bool is(const Item& item, std::string_view text) {
  return item.kind == TokenKind::mark && item.text == text;
}

// Two marks that would be read as one, or as another pair, without a blank.
bool would_merge(const Item& left, const Item& right) {
  if (left.kind == TokenKind::number && is(right, ".")) return true;
  return left.kind == TokenKind::mark && right.kind == TokenKind::mark &&
         left.text.back() == right.text.front() &&
         std::string_view("+-&|=<>/").find(right.text.front()) != std::string_view::npos;
}

bool opens_arguments(const Item& left, const Item& paren) {
  if (paren.mark.body_end != 0 || left.mark.condition) return false;
  if (left.mark.definition && left.kind == TokenKind::keyword) return false;  // the short form of a list
  return left.kind != TokenKind::mark || is(left, ")") || is(left, "]");
}

void match_brackets(std::vector<Item>& items) {
  std::vector<size_t> open;
  for (size_t i = 0; i < items.size(); i++) {
    items[i].match = items.size() - 1;
    if (is(items[i], "{") || is(items[i], "(*")) open.push_back(i);
    if ((is(items[i], "}") || is(items[i], "*)")) && !open.empty()) {
      items[open.back()].match = i;
      open.pop_back();
    }
  }
}

}  // namespace

std::vector<Item> items_of(const Source& source, const TokenMarks& marks) {
  std::vector<Item> items;
  uint32_t at = 0, path_end = 0;
  auto add = [&](Span span, TokenKind kind) {
    Item& item = items.emplace_back();
    item.text = source.text(span);
    item.kind = kind;
    item.begin = span.begin;
    Gap(source.text({span.file, at, span.begin}), at == 0, item).read();
    item.in_path = span.begin < path_end;
    if (auto mark = marks.find(span.begin); mark != marks.end() && !item.text.empty()) {
      item.mark = mark->second;
      path_end = std::max(path_end, item.mark.path_end);
    }
    at = span.end;
  };
  for (const Token& token : tokenize(source)) add(token.span, token.kind);
  auto end = static_cast<uint32_t>(source.text().size());
  add({source.ordinal(), end, end}, TokenKind::mark);
  match_brackets(items);
  return items;
}

bool has_space_between(const Item& left, const Item& right) {
  if (would_merge(left, right)) return true;
  if (right.in_path || left.mark.prefix) return false;
  if (is(left, "(") || is(left, "[") || is(left, ".")) return false;
  for (std::string_view closing : {")", "]", ",", ";", ".", "["})
    if (is(right, closing)) return false;
  if (is(right, "++") || is(right, "--")) return right.mark.prefix;
  if (is(right, "(")) return !opens_arguments(left, right);
  return true;
}

}  // namespace mdl
