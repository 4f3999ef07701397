#include "compiler/support/suggest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/near_names.h"

namespace mdl {

std::string Suggestion::text() const {
  return empty() ? "" : fmt::format("did you mean '{}'?", word);
}

Suggestion did_you_mean(std::string_view wanted, const std::vector<std::string_view>& candidates) {
  const std::vector<NearName> near = near_names(wanted, candidates, {.least = 1, .longest = 64});
  const auto nearest = std::ranges::min_element(near, {}, &NearName::changes);
  return {nearest == near.end() ? std::string() : std::string(nearest->name), wanted.size()};
}

std::string one_of(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); i++) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace mdl
