// "Did you mean": the candidate nearest to a word that was not found.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mdl {

// A word instead of the one that was not found. It reads as a hint wherever text is wanted; a
// diagnostic takes it as an edit, too (Diagnostic::hint).
struct Suggestion {
  std::string word;   // "" for none
  size_t wanted = 0;  // bytes of the word that was not found

  std::string text() const;  // "did you mean 'x'?"
  bool empty() const { return word.empty(); }
  operator std::string() const { return text(); }
  friend bool operator==(const Suggestion& s, std::string_view text) { return s.text() == text; }
};

// The near word, or an empty suggestion when no candidate is near enough (about a third of the word
// may differ). Among equally near ones the first wins, so the answer does not depend on
// hashing. Case counts little: a word that differs only in case is the nearest of all.
Suggestion did_you_mean(std::string_view wanted, const std::vector<std::string_view>& candidates);

// "a, b or c"
std::string one_of(const std::vector<std::string_view>& words);

}  // namespace mdl
