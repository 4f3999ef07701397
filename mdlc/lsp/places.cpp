#include "mdlc/lsp/places.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/utf8.h"

namespace mdl::lsp {
namespace {

constexpr std::string_view kFile = "file://";

// Code units of the character that begins with this byte: those of four bytes are a pair.
uint32_t units(char c, Encoding encoding) {
  if (encoding == Encoding::utf8) return 1;
  if (continues_character(c)) return 0;
  return static_cast<unsigned char>(c) >= 0xf0 ? 2 : 1;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

Json position(const Source& source, uint32_t offset, Encoding encoding) {
  format::Position at = source.position(offset);
  std::string_view before = source.line(at.line).substr(0, at.column - 1);
  uint32_t character = 0;
  for (char c : before) character += units(c, encoding);
  return {{"line", at.line - 1}, {"character", character}};
}

Json range(const Source& source, Span span, Encoding encoding) {
  return {{"start", position(source, span.begin, encoding)}, {"end", position(source, span.end, encoding)}};
}

uint32_t offset(const Source& source, const Json& position, Encoding encoding) {
  auto line = position.at("line").get<uint64_t>();
  auto character = position.at("character").get<uint64_t>();
  auto end = static_cast<uint32_t>(source.text().size());
  if (line >= source.position(end).line) return end;
  auto number = static_cast<uint32_t>(line + 1);
  std::string_view text = source.line(number);
  uint64_t column = 0;
  uint32_t at = 0;
  while (at < text.size() && column < character) {
    column += units(text[at++], encoding);
    while (at < text.size() && encoding == Encoding::utf16 && continues_character(text[at])) at++;
  }
  return source.line_begin(number) + at;
}

std::string uri_of(std::string_view path) {
  std::error_code error;
  std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
  std::string uri(kFile);
  constexpr std::string_view kPlain = "/-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (char c : absolute) {
    auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte)) || kPlain.find(c) != std::string_view::npos)
      uri += c;
    else
      (uri += '%').append({kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return uri;
}

std::string path_of(std::string_view uri) {
  if (!uri.starts_with(kFile)) return std::string(uri);
  std::string path;
  for (size_t i = kFile.size(); i < uri.size(); i++) {
    bool escaped = uri[i] == '%' && i + 2 < uri.size() && hex(uri[i + 1]) >= 0 && hex(uri[i + 2]) >= 0;
    path += escaped ? static_cast<char>(hex(uri[i + 1]) * 16 + hex(uri[i + 2])) : uri[i];
    if (escaped) i += 2;
  }
  return path;
}

}  // namespace mdl::lsp
