// Series, points and their consumers.
//
// A series is one line of numbers over time: a metric of a process at a focus. The session adds each series
// to its feed once, and from then on gives totals. The feed makes points of them, with what was added since
// the point before and how fast, and hands the points to all consumers: output formats, and whatever else
// follows values. Consumers know no process, no plan and no thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "format/kinds.h"
#include "runtime/values/distribution.h"

namespace mdl::output {

struct Series {
  enum class Kind : uint8_t {
    total,  // since the insertion
    level,  // may fall, as a maximum or a size does: it has no rate
    distribution,
  };
  uint32_t id = 0;  // in the session: 0, 1, 2, ...
  Kind kind = Kind::total;
  std::string metric;  // identifier
  std::string name;    // display name; "" = the identifier
  std::string focus;   // "" = the whole program
  pid_t process = 0;   // 0 = all processes of the session (sums.h)
  std::string units;
  uint32_t family = 0;                // series of one that is not 0 are the children of one request with `*`
  std::vector<std::string> key = {};  // of a metric by key
  std::optional<format::Aggregate> aggregate = format::Aggregate::sum;  // over processes; none: no such value
  std::string asked = {};  // the focus as it was asked for, with its `*`
};
// The key on one line; "" where there is none.
std::string key_text(const Series& series);
// Its id, or "all".
std::string process_text(const Series& series);
// What people read as the places of series: their foci, with functions as they are written, and their keys. Of foci that
// read alike all but the first say what tells them apart.
class Places {
 public:
  std::string text(const Series& series);

 private:
  std::unordered_map<std::string, std::string> first_;  // the focus that reads so
};

// The value of a point, or a part of it.
struct Number {
  int64_t total = 0;
  int64_t delta = 0;           // since the point before; since zero in the first
  std::optional<double> rate;  // delta per second; none where that means nothing
};

// Values that were observed, of the series' units: how often each size, and the number that they add up to.
struct Observed {
  Number sum;
  values::Distribution of;  // since the insertion
};
// The least or the largest of the values that were observed, or their mean.
struct Summary {
  Number number;               // of a mean without its fraction
  uint64_t count = 0;          // of how many; 0: there is no number
  std::optional<int64_t> sum;  // of those that a mean is of

  std::optional<double> mean() const;  // with its fraction
};
// Nothing could be measured that the series is about: 0 would be a number that nobody has counted.
struct Unknown {
  Number number = {};
};
using Value = std::variant<Number, Observed, Summary, Unknown>;
const Number& number(const Value& value);  // 0 where there is none
bool is_measured(const Value& value);
bool is_known(const Value& value);  // whether there is a number
// The number as it is: 12, 3.5; "" where there is none.
std::string number_text(const Value& value);

// Those that are written, in all formats.
struct Quantile {
  const char* name;
  double part;
};
inline constexpr Quantile kQuantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};

// Errors in the count of a flag or timer.
struct Anomaly {
  std::string function;    // or several
  uint64_t vanished = 0;   // frames that an exception or longjmp took
  uint64_t unmatched = 0;  // exits without an entry
};

struct Point {
  const Series* series = nullptr;  // the feed's, which stays where it is
  uint64_t time_ns = 0;
  double elapsed_s = 0;
  Value value;
  uint64_t refused = 0;               // points of code that could not be instrumented
  bool complete = true;               // false: the target ended before its last values could be read
  bool suspect = false;               // an exit of a function was missed: the value may be too high
  uint64_t anomalies = 0;             // of the whole session
  std::vector<Anomaly> anomalies_of;  // of the request's flags and timers
  double overhead = -1;  // part of the process's time that the instrumentation takes; below 0: not known
  size_t processes = 0;  // of a series of all: that have a value, ended ones among them
};

class Consumer {
 public:
  virtual ~Consumer() = default;
  virtual Result<void> begin() { return {}; }
  // `final`: the last sample. Series are in the same order each time; new ones may come with any sample.
  virtual Result<void> sample(std::span<const Point> points, bool final) = 0;
  // Between samples, every few milliseconds.
  virtual Result<void> look() { return {}; }
  // A document is complete only after this. Nothing is written by destructors.
  virtual Result<void> end() { return {}; }
};

class Feed {
 public:
  void add(std::unique_ptr<Consumer> consumer) { consumers_.push_back(std::move(consumer)); }
  // Returns the series with its id.
  const Series& add(Series series);

  // The next value of a series. `interval_s`: the time since the points before of its process. The first
  // points have none: their deltas were counted since the insertion, which is before the start.
  Number next(const Series& series, int64_t total, std::optional<double> interval_s);

  // To all consumers. When one fails the others still get it; the first failure is returned.
  Result<void> begin();
  Result<void> sample(std::span<const Point> points, bool final);
  Result<void> look();
  Result<void> end();

  // From here on a sample is kept until hand_out(), which may wait for readers: whoever is in the middle of something
  // does not.
  void keep_samples() { keeps_ = true; }
  // What is kept, and then these points of a sample that is not the last.
  Result<void> hand_out(std::span<const Point> points = {});

  // What does not wait for the readers of the output: called while one of them is waited for.
  std::function<void()> meanwhile = [] {};

 private:
  std::vector<std::unique_ptr<Consumer>> consumers_;
  std::deque<Series> series_;    // by id
  std::vector<int64_t> totals_;  // by id: the last
  struct Sample {
    std::vector<Point> points;
    bool final = false;
  };
  Result<void> give(std::span<const Point> points, bool final);
  std::deque<Sample> kept_;
  bool keeps_ = false;
};

}  // namespace mdl::output
