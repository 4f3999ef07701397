#include "runtime/focus/folded.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "runtime/image/image.h"

namespace mdl::focus {
namespace {

std::string plain(const std::string& name) {
  return image::demangle(name.substr(0, name.find('@'))).plain;
}

// The C library's functions have several names, many of them its own: a note would be no news.
bool has_many_names(const image::Object& object) {
  return object.name.starts_with("libc.so") || object.name.starts_with("libc-") ||
         object.name.starts_with("ld-");
}

// By request: whether its metric has few lines. Who asks for many functions reads the lines, not each name.
std::vector<bool> few_lines(const Binding& binding) {
  constexpr size_t kFew = 8;
  std::map<std::string_view, size_t> lines;
  for (const BoundRequest& one : binding.requests) lines[one.metric] += 1 + one.children;
  std::vector<bool> out;
  for (const BoundRequest& one : binding.requests) out.push_back(lines[one.metric] <= kFew);
  return out;
}

}  // namespace

bool are_alike(std::string_view one, std::string_view other) {
  for (std::string_view* name : {&one, &other})
    name->remove_prefix(std::min(name->find_first_not_of('_'), name->size()));
  return one.find(other) != one.npos || other.find(one) != other.npos;
}

std::vector<Folded> folded_functions(const Binding& binding) {
  std::vector<Folded> out;
  std::set<const image::Function*> seen;
  const std::vector<bool> is_meant = few_lines(binding);
  for (const BoundPoint& point : binding.points) {
    if (!point.function || point.function->aliases.empty() || has_many_names(*point.object)) continue;
    if (std::ranges::none_of(point.snippets, [&](const BoundSnippet& snippet) {
          return std::ranges::any_of(snippet.requests, [&](uint32_t r) { return is_meant[r]; });
        }))
      continue;
    if (!seen.insert(point.function).second) continue;
    Folded one{plain(point.function->name), {}};
    for (const std::string& alias : point.function->aliases) {
      std::string other = plain(alias);
      if (other.ends_with("_ifunc")) continue;  // what chooses it
      if (!are_alike(one.name, other) &&
          std::ranges::none_of(one.others, [&](const std::string& known) { return are_alike(known, other); }))
        one.others.push_back(std::move(other));
    }
    if (!one.others.empty()) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace mdl::focus
