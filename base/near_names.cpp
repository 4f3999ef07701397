#include "base/near_names.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/utf8.h"

namespace mdl {
namespace {

// Optimal string alignment distance (insert, delete, replace, swap neighbours).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); i++) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); j++) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::vector<NearName> near_names(std::string_view wanted, const std::vector<std::string_view>& known,
                                 NearRule rule) {
  std::vector<NearName> out;
  if (wanted.size() > rule.longest) return out;
  const std::string folded = lower(wanted);
  const size_t most = std::max(rule.least, wanted.size() / 3);
  for (std::string_view name : known) {
    const auto [shorter, longer] = std::minmax({wanted.size(), name.size()});
    if (shorter == 0 || longer > rule.longest || longer - shorter > most || name == wanted) continue;
    const size_t changes = distance(folded, lower(name));
    if (changes <= most) out.push_back({changes, name});
  }
  return out;
}

}  // namespace mdl
