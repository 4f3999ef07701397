#include "base/proc_text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>

namespace mdl {

std::string_view stat_field(std::string_view stat, int field) {
  constexpr int kFirst = 3;
  const size_t name_end = stat.rfind(") ");
  if (name_end == stat.npos || field < kFirst) return {};
  std::string_view rest = stat.substr(name_end + 2);
  for (int at = kFirst; at < field; at++) {
    const size_t space = rest.find(' ');
    if (space == rest.npos) return {};
    rest.remove_prefix(space + 1);
  }
  return rest.substr(0, rest.find_first_of(" \n"));
}

std::optional<uint64_t> stat_number(std::string_view stat, int field) {
  const std::string_view text = stat_field(stat, field);
  uint64_t out = 0;
  const bool is_number = std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc();
  return is_number ? std::optional(out) : std::nullopt;
}

bool stat_is_alive(std::string_view stat) {
  const std::string_view state = stat_field(stat, 3);
  return !state.empty() && state != "Z" && state != "X";
}

std::string_view status_value(std::string_view status, std::string_view key) {
  while (!status.empty()) {
    const std::string_view line = status.substr(0, status.find('\n'));
    status.remove_prefix(std::min(status.size(), line.size() + 1));
    if (line.starts_with(key) && line.substr(key.size()).starts_with(":\t"))
      return line.substr(key.size() + 2);
  }
  return {};
}

}  // namespace mdl
