// How one value of many threads becomes one.
#pragma once

#include <cstdint>

#include "format/kinds.h"

namespace mdl::values {

class Fold {
 public:
  void add(int64_t value);
  void add_zeros(int64_t count);
  // Adds a value of threads that nobody knows one by one any more.
  void add_to_sum(int64_t value) { sum_ += value; }
  int64_t count() const { return count_; }
  int64_t result(format::Aggregate aggregate) const;  // sums wrap, averages truncate

 private:
  __extension__ __int128 sum_ = 0;  // 2^20 values of 64 bits fit
  int64_t least_ = 0, most_ = 0;
  int64_t count_ = 0;
};

}  // namespace mdl::values
