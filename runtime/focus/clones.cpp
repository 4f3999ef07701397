#include "runtime/focus/clones.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace mdl::focus {

std::string_view cloned_from(std::string_view name) {
  const size_t dot = name.find('.', 1);
  if (dot == name.npos || name.substr(dot).starts_with(".cold")) return {};
  return name.substr(0, dot);
}

std::vector<const image::Function*> clones_left_out(const Binding& binding, const Names& names) {
  std::unordered_set<const image::Function*> has_code;
  std::unordered_map<const image::Object*, std::unordered_set<std::string_view>> asked;
  for (const BoundPoint& point : binding.points) {
    if (point.function == nullptr || !has_code.insert(point.function).second) continue;
    std::unordered_set<std::string_view>& in_object = asked[point.object];
    in_object.insert(point.function->name);
    in_object.insert(point.function->aliases.begin(), point.function->aliases.end());
  }
  std::set<const image::Function*> out;
  for (const image::Object& object : names.image().objects) {
    const auto in_object = asked.find(&object);
    if (in_object == asked.end()) continue;
    for (const image::Function& function : object.functions.named())
      if (in_object->second.contains(cloned_from(function.name))) out.insert(&function);
  }
  for (const Procedure& clone : names.clones_of_fitting()) out.insert(clone.function);
  std::erase_if(out, [&](const image::Function* function) { return has_code.contains(function); });
  std::vector<const image::Function*> sorted(out.begin(), out.end());
  std::ranges::sort(sorted, {}, &image::Function::name);
  return sorted;
}

}  // namespace mdl::focus
