// JSON from text and to text. The parser and the printer of the library are templates, which take seconds to
// compile in each file that uses them: here they are compiled once. A file that looks into values includes
// <nlohmann/json.hpp> besides.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace mdl {

// Discarded (is_discarded()) where the text is not JSON.
nlohmann::json read_json(std::string_view text);

// In one line, or indented by so many spaces. Bytes that are not UTF-8 are replaced.
std::string write_json(const nlohmann::json& value, int indent = -1);
std::string write_json(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace mdl
