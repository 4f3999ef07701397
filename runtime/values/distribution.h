// A distribution: how often values of each size were observed, as histograms of threads hold it
// (format/kinds.h). Only buckets that hold something are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "format/kinds.h"

namespace mdl::values {

struct Bucket {
  uint32_t index = 0;
  uint64_t count = 0;
  bool operator==(const Bucket&) const = default;
};

// The values of a bucket: from `low` on, below `high`.
struct BucketBounds {
  int64_t low = 0, high = 0;
};
BucketBounds bounds_of(uint32_t bucket);

struct Distribution {
  int64_t sum = 0;              // exact; wraps
  std::vector<Bucket> buckets;  // by index

  uint64_t count() const;
  // The least value that at least this part of all are not above, from the middle of its bucket. 0 of none.
  int64_t quantile(double part) const;
  // A histogram's words, as a block holds them.
  void add(std::span<const uint64_t> words);
  void add(const Distribution& other);
};

// What was observed: a distribution, or of a minimum, a maximum and an average how many values, and the one that tells
// about all.
struct Observations {
  Distribution distribution;
  uint64_t count = 0;
  int64_t number = 0;  // the extreme, or the sum; 0 of none

  int64_t value(format::CellKind kind) const;  // of an average without its fraction
  std::optional<int64_t> sum(format::CellKind kind) const {
    return kind == format::CellKind::average ? std::optional(number) : std::nullopt;
  }
};

}  // namespace mdl::values
