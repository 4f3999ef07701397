#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mdl {
namespace {

// Counts what begins a value, or parts two. A text that is not JSON has at most as many before the parser
// finds that out.
struct JsonSize {
  size_t depth = 0, values = 1;
};

JsonSize size_of(std::string_view text) {
  JsonSize out;
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') i++;
      continue;
    }
    if (c == '[' || c == '{') out.depth = std::max(out.depth, ++depth);
    if ((c == ']' || c == '}') && depth > 0) depth--;
    if (c == '[' || c == '{' || c == ',' || c == ':') out.values++;
  }
  return out;
}

}  // namespace

std::string beyond(std::string_view text, const JsonLimits& limits) {
  const JsonSize size = size_of(text);
  if (size.depth > limits.depth)
    return fmt::format("it is nested {} deep, and {} is the most", size.depth, limits.depth);
  if (size.values > limits.values)
    return fmt::format("it has {} values, and {} is the most", size.values, limits.values);
  return "";
}

size_t json_values(std::string_view text) {
  return size_of(text).values;
}

nlohmann::json read_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string write_json(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string write_json(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace mdl
