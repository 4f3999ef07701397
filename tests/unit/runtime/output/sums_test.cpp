// What several processes have together.
#include "runtime/output/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mdl::output {
namespace {

using format::Aggregate;

class SumsTest : public testing::Test {
 protected:
  const Series& series(pid_t pid, const std::string& focus, const std::string& asked = "",
                       std::optional<Aggregate> aggregate = Aggregate::sum) {
    Series out;
    out.metric = "calls";
    out.focus = focus;
    out.asked = asked.empty() ? focus : asked;
    out.process = pid;
    out.aggregate = aggregate;
    return feed_.add(out);
  }
  Point point(const Series& series, int64_t total, uint64_t seconds = 1) {
    Point out;
    out.series = &series;
    out.time_ns = seconds * 1'000'000'000;
    out.value = Number{total, total, std::nullopt};
    return out;
  }
  std::vector<Point> sums() {
    std::vector<Point> out;
    sums_.append(out);
    return out;
  }
  std::vector<int64_t> totals() {
    std::vector<int64_t> out;
    for (const Point& one : sums()) out.push_back(number(one.value).total);
    return out;
  }
  Feed feed_;
  Sums sums_{feed_};
};

// Of what is measured nowhere there is no sum; else it is that of those that are measured.
TEST_F(SumsTest, OfWhatIsNotKnown) {
  Point one = point(series(1, ""), 0), other = point(series(2, ""), 5);
  one.value = Unknown{};
  sums_.take(std::vector{one});
  EXPECT_FALSE(is_known(sums()[0].value));
  sums_.take(std::vector{other});
  EXPECT_TRUE(is_known(sums()[0].value));
  EXPECT_EQ(totals(), (std::vector<int64_t>{5}));
}

TEST_F(SumsTest, TheLastOfEach) {
  const Series &a = series(1, ""), &b = series(2, "");
  sums_.take(std::vector{point(a, 10), point(b, 5)});
  std::vector<Point> first = sums();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].series->process, 0);
  EXPECT_EQ(first[0].processes, 2u);
  EXPECT_EQ(number(first[0].value).total, 15);
  EXPECT_FALSE(number(first[0].value).rate);
  sums_.take(std::vector{point(a, 30, 3)});  // the other has ended
  std::vector<Point> second = sums();
  EXPECT_EQ(second[0].series, first[0].series);
  EXPECT_EQ(number(second[0].value).total, 35);
  EXPECT_EQ(number(second[0].value).delta, 20);
  EXPECT_DOUBLE_EQ(number(second[0].value).rate.value(), 10);
  // Its own points change nothing.
  sums_.take(second);
  EXPECT_THAT(totals(), testing::ElementsAre(35));
}

TEST_F(SumsTest, EachFocusAndKeyOfWhatWasAskedFor) {
  sums_.take(std::vector{point(series(1, "/Code/a/f", "/Code/a/*"), 1),
                         point(series(1, "/Code/a/g", "/Code/a/*"), 2), point(series(1, "/Code/a/f"), 4),
                         point(series(2, "/Code/a/f", "/Code/a/*"), 8),
                         point(series(2, "/Code/a/h", "/Code/a/*"), 16), point(series(2, "/Code/a/f"), 32)});
  EXPECT_THAT(totals(), testing::ElementsAre(9, 2, 36, 16));
}

TEST_F(SumsTest, AsTheMetricIsFolded) {
  for (const auto aggregate : {Aggregate::sum, Aggregate::min, Aggregate::max, Aggregate::avg}) {
    const std::string focus(format::name(aggregate));
    sums_.take(
        std::vector{point(series(1, focus, "", aggregate), 7), point(series(2, focus, "", aggregate), 3)});
  }
  sums_.take(std::vector{point(series(1, "/Thread/1", "/Thread/*", std::nullopt), 1)});
  EXPECT_THAT(totals(), testing::ElementsAre(10, 3, 7, 5));
}

TEST_F(SumsTest, DistributionsAndWhatIsWrongWithThem) {
  Point one = point(series(1, ""), 0), other = point(series(2, ""), 0);
  one.value = Observed{{5, 0, {}}, {5, {{1, 2}, {3, 1}}}};
  other.value = Observed{{8, 0, {}}, {8, {{0, 1}, {1, 1}, {7, 1}}}};
  one.refused = 2;
  other.refused = 3;
  one.complete = false;
  other.suspect = true;
  one.anomalies_of = {{"f", 1, 0}};
  other.anomalies_of = {{"g", 0, 1}, {"f", 2, 3}};
  sums_.take(std::vector{one, other});
  const Point all = sums()[0];
  const values::Distribution& of = std::get<Observed>(all.value).of;
  EXPECT_EQ(number(all.value).total, 13);
  EXPECT_EQ(of.sum, 13);
  EXPECT_EQ(of.buckets, (std::vector<values::Bucket>{{0, 1}, {1, 3}, {3, 1}, {7, 1}}));
  EXPECT_EQ(all.refused, 5u);
  EXPECT_FALSE(all.complete);
  EXPECT_TRUE(all.suspect);
  ASSERT_EQ(all.anomalies_of.size(), 2u);
  EXPECT_EQ(all.anomalies_of[0].vanished, 3u);
  EXPECT_EQ(all.anomalies_of[0].unmatched, 3u);
}

}  // namespace
}  // namespace mdl::output
