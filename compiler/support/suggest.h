// "Did you mean": the candidate nearest to a word that was not found.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mdl {

// "did you mean 'x'?", or "" when no candidate is near enough (about a third of the word
// may differ). Among equally near ones the first wins, so the answer does not depend on
// hashing. Case counts little: a word that differs only in case is the nearest of all.
std::string did_you_mean(std::string_view wanted, const std::vector<std::string_view>& candidates);

// "a, b or c"
std::string one_of(const std::vector<std::string_view>& words);

}  // namespace mdl
