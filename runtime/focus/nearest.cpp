#include "runtime/focus/nearest.h"

#include <fmt/format.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>

namespace mdl::focus {
namespace {

constexpr size_t kMost = 3;
constexpr size_t kLongest = 200;  // names beyond this are not compared: the time is quadratic

}  // namespace

std::vector<std::string> nearest(std::string_view wanted, const std::vector<std::string>& known) {
  if (wanted.size() > kLongest) return {};
  const auto limit = static_cast<unsigned>(std::max<size_t>(2, wanted.size() / 3));
  std::vector<std::pair<unsigned, std::string_view>> found;
  for (const std::string& name : known) {
    if (name.size() > kLongest) continue;
    // One more than the limit stands for anything beyond it.
    const unsigned distance = llvm::StringRef(wanted).edit_distance(name, true, limit);
    if (distance <= limit && distance < std::max(wanted.size(), name.size()))
      found.emplace_back(distance, name);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMost, found.size()); ++i) names.emplace_back(found[i].second);
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
