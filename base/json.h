// JSON from text and to text. The parser and the printer of the library are templates, which take seconds to
// compile in each file that uses them: here they are compiled once. A file that looks into values includes
// <nlohmann/json.hpp> besides.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace mdl {

// Discarded (is_discarded()) where the text is not JSON.
nlohmann::json read_json(std::string_view text);

// How much of JSON there may be where somebody else has written it: a value takes a hundred bytes when it is
// parsed, and two in its text.
struct JsonLimits {
  size_t depth = 0;   // of lists and objects in each other
  size_t values = 0;  // with the names in objects
};
// Why a text is beyond them, before it is parsed; "" where it is not.
std::string beyond(std::string_view text, const JsonLimits& limits);
// At most how many values a text has.
size_t json_values(std::string_view text);

// In one line, or indented by so many spaces. Bytes that are not UTF-8 are replaced.
std::string write_json(const nlohmann::json& value, int indent = -1);
std::string write_json(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace mdl
