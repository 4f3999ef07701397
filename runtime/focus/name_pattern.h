// Patterns of names: `*` is any text, `?` any character. A name that exists as it is typed is never taken for a pattern,
// so that `f(char*)` can be asked for.
#pragma once

#include <string_view>

namespace mdl::focus {

bool is_pattern(std::string_view name);
// Time is linear in the text for each star.
bool fits(std::string_view pattern, std::string_view text);

}  // namespace mdl::focus
