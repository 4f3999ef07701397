#include "compiler/reformat/reformat.h"

#include <algorithm>

#include "compiler/reformat/printer.h"

namespace mdl {
namespace {

// The parser sees nothing of a source but its tokens: the same tokens are the same program.
bool is_same_program(const std::vector<Item>& before, const std::vector<Item>& after) {
  auto same = [](const Item& a, const Item& b) {
    return a.text == b.text &&
           std::equal(a.comments.begin(), a.comments.end(), b.comments.begin(), b.comments.end(),
                      [](const Comment& x, const Comment& y) { return x.text == y.text; });
  };
  return std::equal(before.begin(), before.end(), after.begin(), after.end(), same);
}

void use_crlf(std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '\n') result += '\r';
    result += c;
  }
  text = std::move(result);
}

bool has_crlf(std::string_view text) {
  size_t line_end = text.find('\n');
  return line_end != std::string_view::npos && line_end > 0 && text[line_end - 1] == '\r';
}

}  // namespace

std::optional<std::string> reformat(const Source& source, Standard standard, Diagnostics& diagnostics) {
  size_t errors = diagnostics.errors();
  ast::File file = parse(source, standard, diagnostics);
  if (diagnostics.errors() > errors) return std::nullopt;
  std::vector<Item> items = items_of(source, mark_tokens(file, source));
  std::string text = print(items);
  Source result(source.ordinal(), source.path(), text);
  if (!is_same_program(items, items_of(result, {}))) return std::string(source.text());
  if (has_crlf(source.text())) use_crlf(text);
  return text;
}

}  // namespace mdl
