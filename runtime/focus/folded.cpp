#include "runtime/focus/folded.h"

#include <algorithm>
#include <string_view>

#include "runtime/focus/few_lines.h"
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

}  // namespace

bool are_alike(std::string_view one, std::string_view other) {
  for (std::string_view* name : {&one, &other})
    name->remove_prefix(std::min(name->find_first_not_of('_'), name->size()));
  return one.find(other) != one.npos || other.find(one) != other.npos;
}

std::vector<Folded> folded_functions(const Binding& binding) {
  std::vector<Folded> out;
  for (const BoundPoint* point : points_of_few_lines(binding)) {
    const image::Function& function = *point->function;
    if (has_many_names(*point->object)) continue;
    Folded one{plain(function.name), {}};
    for (const std::string& alias : function.aliases) {
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
