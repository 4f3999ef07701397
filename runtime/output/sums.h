// What the processes of a session have together: for each metric at a focus, and for each key, a series of all
// (Series::process is 0). It is folded from the last value of each process, so what one has counted that has
// ended stays in it. Values of single threads have none: no other process has the thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/output/series.h"

namespace mdl::output {

class Sums final : public Consumer {
 public:
  explicit Sums(Feed& feed) : feed_(feed) {}  // which outlives it
  // The last values that are known, of any process.
  void take(std::span<const Point> points);
  Result<void> sample(std::span<const Point> points, bool) override {
    take(points);
    return {};
  }
  // Appends a point for each series of all.
  void append(std::vector<Point>& points);

 private:
  struct Sum {
    Series series;  // as it is to be
    const Series* added = nullptr;
    std::map<uint32_t, Point> parts;    // by series
    std::optional<uint64_t> before_ns;  // of the point before
  };
  struct Metric {
    std::deque<Sum> sums;
    using Place =
        std::tuple<std::string, std::string, std::vector<std::string>>;  // what was asked for, focus, key
    std::map<Place, Sum*> places;
  };
  Sum& sum_of(const Series& series);
  Point fold(Sum& sum);

  Feed& feed_;
  std::deque<std::pair<std::string, Metric>> metrics_;  // in the order in which they came
  std::map<uint32_t, Sum*> of_;                         // by series of a process
};

}  // namespace mdl::output
