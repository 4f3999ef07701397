// What stands on a terminal: the rows of the largest values, wherever their points stood in a sample.
#include "runtime/output/view.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mdl::output {
namespace {

using testing::ElementsAre;

class ViewTest : public testing::Test {
 protected:
  static constexpr size_t kSeries = 40;

  ViewTest() {
    for (size_t i = 0; i < kSeries; ++i) {
      Series one;
      one.id = static_cast<uint32_t>(i);
      one.metric = "calls", one.units = "Calls", one.process = 12, one.family = 1;
      one.key = {fmt::format("key{}", i)};
      series_.push_back(std::move(one));
    }
  }

  Point point(size_t series, int64_t total, int64_t delta) const {
    Point out;
    out.series = &series_[series];
    out.elapsed_s = 1;
    out.value = Number{total, delta, static_cast<double>(delta)};
    return out;
  }

  // The places of the rows that are shown, the first one on top.
  static std::vector<std::string> places(View& view, size_t rows) {
    constexpr size_t kFrame = 4;  // head, titles, the metric's title, status
    std::vector<std::string> out;
    for (const View::Line& line : view.lines({rows + kFrame + 1, 100}))
      if (line.kind == View::Line::Kind::plain) out.push_back(line.text.substr(line.text.rfind(' ') + 1));
    return out;
  }

  std::vector<Series> series_;
  Look look_;
};

TEST_F(ViewTest, RowsAreFoundWhereverTheirPointsStand) {
  View view(look_, true);
  std::vector<Point> points;
  for (size_t i = 0; i < kSeries; ++i) points.push_back(point(i, 100, static_cast<int64_t>(i)));
  view.take(points, false);
  EXPECT_THAT(places(view, 3), ElementsAre("key39", "key38", "key37"));
  // In another order, with the largest first, and one less.
  std::ranges::reverse(points);
  points.erase(points.begin());
  points.back() = point(0, 200, 1000);
  view.take(points, false);
  EXPECT_THAT(places(view, 3), ElementsAre("key0", "key39", "key38"));
  view.take(std::vector{point(7, 200, 5000)}, true);
  EXPECT_THAT(places(view, 2), ElementsAre("key7", "key0"));
}

TEST_F(ViewTest, AKeySortsByAnother) {
  View view(look_, true);
  view.take(std::vector{point(0, 1000, 1), point(1, 10, 10), point(2, 100, 5)}, false);
  EXPECT_THAT(places(view, 3), ElementsAre("key1", "key2", "key0"));  // by rate
  (void)view.obey("ss");                                              // delta, then name
  EXPECT_THAT(places(view, 3), ElementsAre("key0", "key1", "key2"));
  (void)view.obey("s");
  EXPECT_THAT(places(view, 3), ElementsAre("key0", "key2", "key1"));  // by total
}

TEST_F(ViewTest, NotesComeAndGo) {
  View view(look_, true);
  Point odd = point(3, 1, 1);
  odd.suspect = true;
  view.take(std::vector{odd}, false);
  EXPECT_THAT(view.lines({20, 100})[3].text, testing::HasSubstr("[suspect]"));
  view.take(std::vector{point(3, 2, 1)}, false);
  EXPECT_THAT(view.lines({20, 100})[3].text, testing::Not(testing::HasSubstr("[suspect]")));
}

}  // namespace
}  // namespace mdl::output
