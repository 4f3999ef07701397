#include "runtime/values/distribution.h"

#include <gtest/gtest.h>

#include "format/kinds.h"
#include "runtime/arch/target_data.h"

namespace mdl::values {
namespace {

std::vector<uint64_t> histogram() {
  return std::vector<uint64_t>(format::info(format::CellKind::histogram).size / sizeof(uint64_t));
}

// Buckets follow each other without a gap, and none is wider than a part in 64 of where it begins.
TEST(Distribution, BucketsAreNarrow) {
  int64_t end = 0;
  for (uint32_t i = 0; i + 1 < format::kHistogramBuckets; i++) {
    const auto [low, high] = bounds_of(i);
    EXPECT_EQ(low, end);
    EXPECT_LE((high - low - 1) * 64, low) << i;
    end = high;
  }
  EXPECT_EQ(bounds_of(format::kHistogramBuckets - 1).low, end);
  EXPECT_EQ(bounds_of(format::kHistogramBuckets - 1).high, INT64_MAX);
}

TEST(Distribution, AddsThreadsWordByWord) {
  std::vector<uint64_t> one = histogram(), other = histogram();
  one[0] = 10, one[1 + 5] = 2;
  other[0] = 7, other[1 + 5] = 1, other[1 + 2] = 1, other.back() = 4;
  Distribution sum;
  sum.add(one);
  sum.add(other);
  EXPECT_EQ(sum.sum, 17);
  EXPECT_EQ(sum.count(), 8u);
  EXPECT_EQ(sum.buckets, (std::vector<Bucket>{{2, 1}, {5, 3}, {format::kHistogramBuckets - 1, 4}}));
}

TEST(Distribution, Quantiles) {
  Distribution none;
  EXPECT_EQ(none.quantile(0.5), 0);
  std::vector<uint64_t> words = histogram();
  for (uint64_t value = 0; value < 10; value++) words[1 + value] = 10;
  Distribution of;
  of.add(words);
  EXPECT_EQ(of.quantile(0.1), 0);
  EXPECT_EQ(of.quantile(0.101), 1);
  EXPECT_EQ(of.quantile(0.5), 4);
  EXPECT_EQ(of.quantile(1), 9);
  words.back() = 1000;
  of.add(words);
  EXPECT_EQ(of.quantile(0.99), bounds_of(format::kHistogramBuckets - 1).low) << "it has no end";
}

}  // namespace
}  // namespace mdl::values
