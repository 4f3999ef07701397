// The rows of a list: lines of text for people, or an object of JSON for each, as lines or as one array.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace mdl::output {

// The formats that lists have; "" is that for people.
inline constexpr std::string_view kRowFormats[] = {"", "table", "ndjson", "json"};

class Rows {
 public:
  explicit Rows(std::string_view format) : is_lines_(format == "ndjson"), is_array_(format == "json") {}

  bool has_objects() const { return is_lines_ || is_array_; }
  // What stands before the first row, or between two, and the row.
  std::string of(const nlohmann::ordered_json& object);
  // What stands behind the last one.
  std::string end() const;

 private:
  bool is_lines_, is_array_, any_ = false;
};

}  // namespace mdl::output
