#include "runtime/focus/nearest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/near_names.h"

namespace mdl::focus {

std::vector<std::string> nearest(std::string_view wanted, const std::vector<std::string>& known) {
  constexpr size_t kMost = 3;
  std::vector<NearName> found =
      near_names(wanted, {known.begin(), known.end()}, {.least = 2, .longest = 200});
  std::erase_if(found, [&](const NearName& near) {  // what has nothing in common
    return near.changes >= std::max(wanted.size(), near.name.size());
  });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMost, found.size()); ++i) names.emplace_back(found[i].name);
  return names;
}

std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& known) {
  const std::vector<std::string> names = nearest(wanted, known);
  if (names.empty()) return "";
  std::string text = fmt::format("; did you mean `{}`", names[0]);
  for (size_t i = 1; i < names.size(); ++i)
    text += fmt::format("{}`{}`", i + 1 == names.size() ? " or " : ", ", names[i]);
  return text + "?";
}

}  // namespace mdl::focus
