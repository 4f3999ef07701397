#include "runtime/values/fold.h"

#include <algorithm>

namespace mdl::values {

void Fold::add(int64_t value) {
  sum_ += value;
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++count_;
}

void Fold::add_zeros(int64_t count) {
  if (count <= 0) return;
  add(0);
  count_ += count - 1;
}

int64_t Fold::result(format::Aggregate aggregate) const {
  switch (aggregate) {
    case format::Aggregate::sum:
      return static_cast<int64_t>(static_cast<uint64_t>(sum_));
    case format::Aggregate::min:
      return least_;
    case format::Aggregate::max:
      return most_;
    case format::Aggregate::avg:
      return count_ == 0 ? 0 : static_cast<int64_t>(sum_ / count_);
  }
  return 0;
}

}  // namespace mdl::values
