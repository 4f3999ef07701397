#include "runtime/values/sparse_words.h"

#include <algorithm>

namespace mdl::values {
namespace {

struct Run {
  size_t first = 0, end = 0;
};

// The next run from `at` on: it ends where two zeros follow, or the words do.
Run next_run(const std::vector<uint64_t>& words, size_t at) {
  while (at < words.size() && words[at] == 0) ++at;
  Run out{.first = at, .end = at};
  for (; at < words.size() && at <= out.end + 1; ++at)
    if (words[at] != 0) out.end = at + 1;
  return out;
}

template <typename Each>
void for_each_run(const std::vector<uint64_t>& words, const Each& each) {
  for (Run run = next_run(words, 0); run.first < words.size(); run = next_run(words, run.end)) each(run);
}

}  // namespace

SparseWords::SparseWords(const std::vector<uint64_t>& words) : size_(words.size()) {
  size_t needed = 0;
  for_each_run(words, [&](const Run& run) { needed += 1 + run.end - run.first; });
  runs_.reserve(needed);
  for_each_run(words, [&](const Run& run) {
    runs_.push_back(uint64_t{run.first} << 32 | (run.end - run.first));
    runs_.insert(runs_.end(), words.data() + run.first, words.data() + run.end);
  });
}

std::vector<uint64_t> SparseWords::whole() const {
  std::vector<uint64_t> out(size_);
  for (size_t at = 0; at < runs_.size();) {
    const uint64_t* run = &runs_[at];
    const size_t first = *run >> 32, length = static_cast<uint32_t>(*run);
    std::copy_n(run + 1, length, out.data() + first);
    at += 1 + length;
  }
  return out;
}

}  // namespace mdl::values
