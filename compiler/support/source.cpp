#include "compiler/support/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/read_text.h"

namespace mdl {

Span join(Span a, Span b) {
  return {a.file, std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

Source::Source(uint32_t ordinal, std::string path, std::string text)
    : ordinal_(ordinal), path_(std::move(path)), text_(std::move(text)) {
  // Offsets are 32 bits. parse() refuses such a file; only its beginning is kept.
  if (text_.size() > std::numeric_limits<uint32_t>::max() / 2) text_.resize(kMaxBytes + 1);
  lines_.push_back(0);
  for (size_t i = 0; i < text_.size(); i++)
    if (text_[i] == '\n') lines_.push_back(static_cast<uint32_t>(i + 1));
}

std::string_view Source::text(Span span) const {
  size_t begin = std::min<size_t>(span.begin, text_.size());
  size_t end = std::clamp<size_t>(span.end, begin, text_.size());
  return std::string_view(text_).substr(begin, end - begin);
}

format::Position Source::position(uint32_t offset) const {
  offset = std::min(offset, static_cast<uint32_t>(text_.size()));
  auto after = std::upper_bound(lines_.begin(), lines_.end(), offset);
  auto line = static_cast<uint32_t>(after - lines_.begin());
  return {ordinal_, line, offset - lines_[line - 1] + 1};
}

uint32_t Source::line_begin(uint32_t line) const {
  return lines_[line - 1];
}

std::string_view Source::line(uint32_t line) const {
  size_t begin = lines_[line - 1];
  size_t end = line < lines_.size() ? lines_[line] - 1 : text_.size();
  std::string_view found = std::string_view(text_).substr(begin, end - begin);
  if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
  return found;
}

const Source& Sources::add(std::string path, std::string text) {
  return files_.emplace_back(static_cast<uint32_t>(files_.size()), std::move(path), std::move(text));
}

Result<const Source*> Sources::read(const std::string& path) {
  auto text = read_file(path, Source::kMaxBytes);  // parse() refuses a longer one
  if (!text) return Error{fmt::format("cannot read '{}': {}", path, text.error().text)};
  return &add(path, std::move(*text));
}

format::Position Sources::position(Span span) const {
  if (span.file >= files_.size()) return {};
  return files_[span.file].position(span.begin);
}

}  // namespace mdl
