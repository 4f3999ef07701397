#include "compiler/support/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace mdl {
namespace {

constexpr size_t kLongest = 64;  // longer words are compared by nobody

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// Optimal string alignment distance (insert, delete, replace, swap neighbours), case ignored.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); i++) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      size_t replaced = last[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      bool swapped =
          i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string Suggestion::text() const {
  return empty() ? "" : fmt::format("did you mean '{}'?", word);
}

Suggestion did_you_mean(std::string_view wanted, const std::vector<std::string_view>& candidates) {
  if (wanted.empty() || wanted.size() > kLongest) return {};
  size_t best = std::max<size_t>(1, wanted.size() / 3) + 1;
  std::string_view found;
  for (std::string_view candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongest || candidate == wanted) continue;
    size_t difference = std::max(candidate.size(), wanted.size()) - std::min(candidate.size(), wanted.size());
    if (difference >= best) continue;
    size_t d = distance(wanted, candidate);
    if (d >= best) continue;
    best = d;
    found = candidate;
  }
  return {std::string(found), wanted.size()};
}

std::string one_of(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); i++) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace mdl
