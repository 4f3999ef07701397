// "Did you mean": the known names that are near to one that is not known.
#pragma once

#include <compare>
#include <cstddef>
#include <string_view>
#include <vector>

namespace mdl {

// A name is near if a third of the wanted one's characters differ, or `least`. The time is quadratic, so
// names that are longer than `longest` are near to none.
struct NearRule {
  size_t least;
  size_t longest;
};

struct NearName {
  size_t changes;  // characters that are more, less or others, and neighbours that are swapped; not case
  std::string_view name;
  auto operator<=>(const NearName&) const = default;
};

// In the order of `known`.
std::vector<NearName> near_names(std::string_view wanted, const std::vector<std::string_view>& known,
                                 NearRule rule);

}  // namespace mdl
