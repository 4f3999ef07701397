// The words of a block without its zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mdl::values {

// A block of distributions has 22 KB for each, and a few words of them are used: as they stand, the blocks of a few
// dozen threads that have ended would fill the memory of the reader.
// It never takes more than a word beyond what the words take: a single zero does not end a run.
class SparseWords {
 public:
  SparseWords() = default;
  explicit SparseWords(const std::vector<uint64_t>& words);

  std::vector<uint64_t> whole() const;
  size_t bytes() const { return runs_.size() * sizeof(uint64_t); }

 private:
  size_t size_ = 0;
  std::vector<uint64_t> runs_;  // of each run: its first index and its length, 32 bits each, and its words
};

}  // namespace mdl::values
