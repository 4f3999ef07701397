#include "runtime/focus/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/near_names.h"
#include "runtime/image/image.h"

namespace mdl::focus {
namespace {

constexpr size_t kMost = 3;

std::string question(std::span<const std::string> names) {
  if (names.empty()) return "";
  std::string text = fmt::format("; did you mean `{}`", names[0]);
  for (size_t i = 1; i < names.size(); ++i)
    text += fmt::format("{}`{}`", i + 1 == names.size() ? " or " : ", ", names[i]);
  return text + "?";
}

// As the source has it: without template arguments, and without what makes it a compiler's clone
// ("f.constprop.0", "ns::f(int) (.isra.0)").
std::string written_name(std::string_view name) {
  const size_t clone = name.find(" (.");
  if (clone == name.npos) return image::without_arguments(name.substr(0, name.find('.', 1)));
  name = name.substr(0, clone);
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    depth += name[i] == ')' ? 1 : name[i] == '(' ? -1 : 0;
    if (depth != 0) continue;
    if (name[i] == '(') name = name.substr(0, i);
    break;
  }
  return image::without_arguments(name);
}

bool is_last_part(std::string_view whole, std::string_view wanted) {
  return whole.ends_with(wanted) &&
         (whole.size() == wanted.size() || whole.substr(0, whole.size() - wanted.size()).ends_with("::"));
}

}  // namespace

std::vector<std::string> nearest(std::string_view wanted, const std::vector<std::string>& known) {
  std::vector<NearName> found =
      near_names(wanted, {known.begin(), known.end()}, {.least = wanted.size() < 5 ? 1u : 2u, .longest = 200});
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
  return question(nearest(wanted, known));
}

std::string did_you_mean_function(std::string_view wanted, const std::vector<std::string>& known) {
  const std::string bare = image::without_arguments(wanted);
  std::vector<std::string> same;
  if (const std::string of_cpp = fmt::format("operator {}", wanted);
      (wanted == "new" || wanted == "delete") && std::ranges::find(known, of_cpp) != known.end())
    return question(std::vector{fmt::format("\"{}\"", of_cpp)});
  for (const std::string& one : known)
    if (one != wanted && is_last_part(written_name(one), bare) &&
        std::ranges::find(same, one) == same.end()) {
      same.push_back(one);
      if (same.size() == kMost) break;
    }
  return same.empty() ? did_you_mean(wanted, known) : question(same);
}

}  // namespace mdl::focus
