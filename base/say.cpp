#include "base/say.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "base/shown_names.h"
#include "base/utf8.h"

namespace mdl {
namespace {

// U+0080 to U+009F are two bytes that begin with c2.
bool is_c1(std::string_view character) {
  return character.size() == 2 && character[0] == '\xc2' && static_cast<unsigned char>(character[1]) < 0xa0;
}

bool is_direction_or_separator(std::string_view character) {
  constexpr std::string_view kRanges[][2] = {
      {"\u200e", "\u200f"}, {"\u2028", "\u202e"}, {"\u2066", "\u2069"}};
  return std::ranges::any_of(kRanges, [&](const auto& range) {
    return character.size() == 3 && range[0] <= character && character <= range[1];
  });
}

std::string* kept_errors = nullptr;
ShowNames shown_names = nullptr;

bool is_harmless(std::string_view character, std::string_view kept) {
  if (character.size() > 1) return !is_c1(character) && !is_direction_or_separator(character);
  const auto byte = static_cast<unsigned char>(character[0]);
  return (byte >= 0x20 && byte != 0x7f) || kept.find(character[0]) != kept.npos;
}

std::string replaced(std::string_view text, std::string_view kept, std::string (*with)(std::string_view)) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(size, 1));
    if (size > 0 && is_harmless(character, kept))
      out += character;
    else
      out += with(character);
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string harmless(std::string_view text, std::string_view kept) {
  return replaced(text, kept, [](std::string_view) -> std::string { return "?"; });
}

std::string escaped(std::string_view text) {
  return replaced(text, "", [](std::string_view character) -> std::string {
    if (character == "\n") return "\\n";
    if (character == "\t") return "\\t";
    if (character == "\r") return "\\r";
    std::string out;
    for (const char byte : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    return out;
  });
}

std::string for_file(int file, std::string bytes) {
  return isatty(file) == 1 ? harmless(bytes, "\n\t") : std::move(bytes);
}

void keep_errors(std::string* place) {
  kept_errors = place;
}

void show_names_by(ShowNames shown) {
  shown_names = shown;
}

void say_text(std::FILE* to, std::string_view text) {
  const bool is_shown = to == stderr && shown_names != nullptr;
  const std::string out = harmless(is_shown ? shown_names(text) : std::string(text), "\n\t");
  if (to == stderr && kept_errors) {
    *kept_errors += out;
    return;
  }
  if (std::fwrite(out.data(), 1, out.size(), to) < out.size() && to != stderr)
    throw std::system_error(errno, std::generic_category(), "cannot write");
}

void warn_text_once(std::string text) {
  static std::set<std::string> warnings;
  if (const auto [it, is_new] = warnings.insert(std::move(text)); is_new) say(stderr, "warning: {}\n", *it);
}

}  // namespace mdl
