// Totals become points, and points reach all consumers.
#include "runtime/output/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mdl::output {
namespace {

using testing::ElementsAre;

Series series(const std::string& focus, Series::Kind kind = Series::Kind::total) {
  Series out;
  out.metric = "calls";
  out.focus = focus;
  out.kind = kind;
  return out;
}

TEST(Feed, SeriesStayWhereTheyAre) {
  Feed feed;
  const Series& first = feed.add(series("/Code/a"));
  for (int i = 0; i < 1000; ++i) feed.add(series("/Code/b"));
  EXPECT_EQ(first.id, 0u);
  EXPECT_EQ(first.focus, "/Code/a");
  EXPECT_EQ(feed.add(series("/Code/c")).id, 1001u);
}

TEST(Feed, DeltasAndRates) {
  Feed feed;
  const Series &one = feed.add(series("a")), &other = feed.add(series("b"));
  Number value = feed.next(one, 100, std::nullopt);
  EXPECT_EQ(value.total, 100);
  EXPECT_EQ(value.delta, 100);
  EXPECT_FALSE(value.rate) << "of what was counted before the start";
  value = feed.next(one, 130, 0.5);
  EXPECT_EQ(value.total, 130);
  EXPECT_EQ(value.delta, 30);
  EXPECT_DOUBLE_EQ(value.rate.value(), 60);
  value = feed.next(one, 120, 1);
  EXPECT_EQ(value.delta, -10);
  EXPECT_DOUBLE_EQ(value.rate.value(), -10);
  // One that comes later was zero until then.
  value = feed.next(other, 8, 2);
  EXPECT_EQ(value.delta, 8);
  EXPECT_DOUBLE_EQ(value.rate.value(), 4);
}

TEST(Feed, RatesThatMeanNothing) {
  Feed feed;
  const Series &total = feed.add(series("a")), &level = feed.add(series("b", Series::Kind::level));
  EXPECT_FALSE(feed.next(total, 1, 0).rate);
  EXPECT_FALSE(feed.next(total, 2, 0.0009).rate);
  EXPECT_TRUE(feed.next(total, 3, 0.001).rate);
  EXPECT_FALSE(feed.next(level, 4, 1).rate);
  EXPECT_EQ(feed.next(level, 9, 1).delta, 5);
}

TEST(Feed, DeltasWrap) {
  Feed feed;
  const Series& one = feed.add(series("a"));
  feed.next(one, INT64_MIN, 1);
  EXPECT_EQ(feed.next(one, INT64_MAX, 1).delta, -1);
}

class Heard final : public Consumer {
 public:
  Heard(std::vector<std::string>& said, bool fails) : said_(said), fails_(fails) {}
  Result<void> begin() override { return said("begin"); }
  Result<void> sample(std::span<const Point> points, bool final) override {
    for (const Point& point : points) (void)said(point.series->focus);
    return said(final ? "final" : "sample");
  }
  Result<void> end() override { return said("end"); }

 private:
  Result<void> said(const std::string& what) {
    said_.push_back(what);
    return fails_ ? Result<void>(Error{"cannot take " + what}) : Result<void>{};
  }
  std::vector<std::string>& said_;
  bool fails_;
};

TEST(Feed, AllConsumersGetAll) {
  std::vector<std::string> first, second;
  Feed feed;
  feed.add(std::make_unique<Heard>(first, true));
  feed.add(std::make_unique<Heard>(second, false));
  Point point;
  point.series = &feed.add(series("a"));
  EXPECT_EQ(feed.begin().error().text, "cannot take begin");
  EXPECT_EQ(feed.sample({&point, 1}, false).error().text, "cannot take sample");
  EXPECT_EQ(feed.sample({}, true).error().text, "cannot take final");
  EXPECT_EQ(feed.end().error().text, "cannot take end");
  EXPECT_THAT(first, ElementsAre("begin", "a", "sample", "final", "end"));
  EXPECT_EQ(first, second);
}

TEST(Feed, KeptSamplesComeInOrder) {
  std::vector<std::string> heard;
  Feed feed;
  feed.add(std::make_unique<Heard>(heard, false));
  Point first, second;
  first.series = &feed.add(series("a"));
  second.series = &feed.add(series("b"));
  feed.keep_samples();
  EXPECT_TRUE(feed.sample({&first, 1}, true));
  EXPECT_TRUE(heard.empty());
  EXPECT_TRUE(feed.hand_out({&second, 1}));
  EXPECT_THAT(heard, ElementsAre("a", "final", "b", "sample"));
  EXPECT_TRUE(feed.hand_out());
  EXPECT_EQ(heard.size(), 4u);
}

TEST(Feed, WithoutConsumers) {
  Feed feed;
  EXPECT_TRUE(feed.begin());
  EXPECT_TRUE(feed.sample({}, true));
  EXPECT_TRUE(feed.end());
}

}  // namespace
}  // namespace mdl::output
