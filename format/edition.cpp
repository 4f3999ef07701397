#include "format/edition.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>

namespace mdl::format {
namespace {

constexpr size_t kLongestName = 64;

template <typename Number>
bool read(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kLongestName && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

}  // namespace

bool is_day(const std::string& text) {
  unsigned year = 0, month = 0, day = 0;
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const std::string_view view = text;
  return read(view.substr(0, 4), year) && read(view.substr(5, 2), month) && read(view.substr(8, 2), day) &&
         std::chrono::year_month_day(std::chrono::year(static_cast<int>(year)), std::chrono::month(month),
                                     std::chrono::day(day))
             .ok();
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

std::string wrong_edition(const Edition& edition) {
  if (!is_name(edition.name))
    return "its name has other characters than letters, digits and -_., or is too long";
  if (edition.version > INT64_MAX) return "its version is too large";
  if (!edition.not_after.empty() && !is_day(edition.not_after))
    return fmt::format("'{}' is no day such as 2027-01-31", edition.not_after);
  return "";
}

Result<Edition> parse_edition(const std::string& text) {
  const size_t at = text.rfind('=');
  Edition out;
  out.name = text.substr(0, at);
  if (at == std::string::npos || !read(std::string_view(text).substr(at + 1), out.version))
    return Error{fmt::format("'{}' is no edition such as NAME=3", text)};
  if (const std::string wrong = wrong_edition(out); !wrong.empty())
    return Error{fmt::format("'{}' is no edition: {}", text, wrong)};
  return out;
}

}  // namespace mdl::format
