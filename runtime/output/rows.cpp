#include "runtime/output/rows.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace mdl::output {

std::string Rows::of(const nlohmann::ordered_json& object) {
  const bool first = !std::exchange(any_, true);
  if (is_lines_) return write_json(object) + "\n";
  return (first ? "[\n" : ",\n") + write_json(object);
}

std::string Rows::end() const {
  if (!is_array_) return "";
  return any_ ? "\n]\n" : "[]\n";
}

}  // namespace mdl::output
