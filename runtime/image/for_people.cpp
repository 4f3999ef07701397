#include "runtime/image/for_people.h"

#include <fmt/format.h>

#include <cctype>

#include "runtime/image/image.h"

namespace mdl::image {
namespace {

constexpr std::string_view kDeleting = "deleting";

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.';
}

// The end of the linkage name that begins at `at`; `at` where none does.
size_t end_of_linkage_name(std::string_view text, size_t at) {
  if (!is_mangled(text.substr(at)) || (at > 0 && is_of_name(text[at - 1]))) return at;
  size_t end = at;
  while (end < text.size() && is_of_name(text[end])) ++end;
  while (text[end - 1] == '.') --end;  // of the sentence
  return end;
}

std::string without_middle(const std::string& name, size_t longest) {
  constexpr std::string_view kMiddle = "...";
  if (longest <= kMiddle.size() || name.size() <= longest) return name;
  const size_t kept = longest - kMiddle.size(), head = (kept + 1) / 2;
  return name.substr(0, head) + std::string(kMiddle) + name.substr(name.size() - (kept - head));
}

// A class has up to three destructors and two constructors that have one name (Itanium C++ ABI, 5.1.4.3): which one it is,
// where it is not the one of complete objects.
std::string_view variant_of(const std::string& name, const std::string& shown) {
  struct Variant {
    std::string_view mark, complete, text;
  };
  constexpr Variant kVariants[] = {
      {"D0Ev", "D1Ev", kDeleting}, {"D2Ev", "D1Ev", "base"}, {"C2E", "C1E", "base"}};
  for (const Variant& one : kVariants) {
    const size_t at = name.rfind(one.mark);
    if (at == name.npos) continue;
    std::string other = name;
    other.replace(at, one.mark.size(), one.complete);  // letters of an identifier would make another one
    if (demangle(other).full == shown) return one.text;
  }
  return "";
}

std::string for_people(std::string_view text, size_t longest, bool exactly) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '_' ? end_of_linkage_name(text, at) : at;
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string name(text.substr(at, end - at)), shown = demangle(name).full;
    at = end;
    if (shown == name) {
      out += name;
      continue;
    }
    out += without_middle(shown, longest);
    const std::string_view variant = variant_of(name, shown);
    if (variant == kDeleting || (exactly && !variant.empty()))
      out += fmt::format(" ({})", variant);
    else if (exactly)
      out += fmt::format(" ({})", name);
  }
  return out;
}

}  // namespace

std::string for_people(std::string_view text, size_t longest) {
  return for_people(text, longest, false);
}

std::string focus_for_people(std::string_view focus, bool exactly) {
  constexpr std::string_view kCode = "/Code/";
  std::string out;
  while (!focus.empty()) {
    const size_t end = focus.find(",/");
    const std::string_view one = focus.substr(0, end);
    out += one.starts_with(kCode) ? for_people(one, 0, exactly) : std::string(one);
    if (end == focus.npos) break;
    out += ',';
    focus.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace mdl::image
