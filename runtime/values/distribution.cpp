#include "runtime/values/distribution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "format/kinds.h"

namespace mdl::values {

using format::kHistogramBits;
using format::kHistogramBuckets;

BucketBounds bounds_of(uint32_t bucket) {
  constexpr uint32_t kShare = 1u << kHistogramBits;  // buckets of a power of two
  if (bucket < kShare) return {bucket, int64_t{bucket} + 1};
  const uint32_t power = bucket / kShare - 1;
  const int64_t low = static_cast<int64_t>(kShare + bucket % kShare) << power;
  return {low, bucket + 1 < kHistogramBuckets ? low + (int64_t{1} << power) : INT64_MAX};
}

uint64_t Distribution::count() const {
  uint64_t out = 0;
  for (const Bucket& one : buckets) out += one.count;
  return out;
}

int64_t Distribution::quantile(double part) const {
  const auto wanted = static_cast<uint64_t>(std::ceil(part * static_cast<double>(count())));
  uint64_t seen = 0;
  for (const Bucket& one : buckets)
    if ((seen += one.count) >= wanted) {
      const auto [low, high] = bounds_of(one.index);
      return one.index + 1 < kHistogramBuckets ? low + (high - low) / 2 : low;
    }
  return 0;
}

int64_t Observations::value(format::CellKind kind) const {
  if (kind != format::CellKind::average || count == 0) return number;
  __extension__ using Wide = __int128;
  return static_cast<int64_t>(Wide{number} / Wide{count});
}

void Distribution::add(std::span<const uint64_t> words) {
  Distribution other;
  other.sum = static_cast<int64_t>(words[0]);
  for (uint32_t i = 0; i + 1 < words.size() && i < kHistogramBuckets; i++)
    if (words[i + 1] != 0) other.buckets.push_back({i, words[i + 1]});
  add(other);
}

void Distribution::add(const Distribution& other) {
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(other.sum));
  std::vector<Bucket> both;
  auto own = buckets.begin();
  for (const Bucket& one : other.buckets) {
    while (own != buckets.end() && own->index < one.index) both.push_back(*own++);
    both.push_back(one);
    if (own != buckets.end() && own->index == one.index) both.back().count += (own++)->count;
  }
  both.insert(both.end(), own, buckets.end());
  buckets = std::move(both);
}

}  // namespace mdl::values
