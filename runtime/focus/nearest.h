// "Did you mean": the known names that are nearest to one that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mdl::focus {

// At most three, nearest first; none when nothing is near.
std::vector<std::string> nearest(std::string_view wanted, const std::vector<std::string>& known);

// "; did you mean `a`, `b` or `c`?", or "" when nothing is near.
std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& known);

// Of functions by their demangled names: those that are called so in a namespace or class, or that have template
// arguments, come first. "; did you mean `ns::f` or `ns::g<int>`?"
std::string did_you_mean_function(std::string_view wanted, const std::vector<std::string>& known);

}  // namespace mdl::focus
