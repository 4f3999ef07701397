#include "runtime/focus/few_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace mdl::focus {
namespace {

// By request: whether its metric has few lines.
std::vector<bool> few_lines(const Binding& binding) {
  constexpr size_t kFew = 8;
  std::map<std::string_view, size_t> lines;
  for (const BoundRequest& one : binding.requests) lines[one.metric] += 1 + one.children;
  std::vector<bool> out;
  for (const BoundRequest& one : binding.requests) out.push_back(lines[one.metric] <= kFew);
  return out;
}

}  // namespace

std::vector<const BoundPoint*> points_of_few_lines(const Binding& binding) {
  std::vector<const BoundPoint*> out;
  std::set<const image::Function*> seen;
  const std::vector<bool> is_meant = few_lines(binding);
  for (const BoundPoint& point : binding.points) {
    if (!point.function || std::ranges::none_of(point.snippets, [&](const BoundSnippet& snippet) {
          return std::ranges::any_of(snippet.requests, [&](uint32_t r) { return is_meant[r]; });
        }))
      continue;
    if (seen.insert(point.function).second) out.push_back(&point);
  }
  return out;
}

}  // namespace mdl::focus
