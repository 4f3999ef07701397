// Room for cells that come while a session runs.
#include "runtime/resident/spare_cells.h"

#include <gmock/gmock.h>

namespace mdl::resident {
namespace {

using focus::CellSlot;
using format::CellKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<CellKind> kinds_of(const std::vector<CellSlot>& cells) {
  std::vector<CellKind> out;
  for (const CellSlot& cell : cells) out.push_back(cell.kind);
  return out;
}

class SpareCellsTest : public ::testing::Test {
 protected:
  const std::vector<CellSlot> cells_ = {
      {CellKind::counter, "a", {}}, {CellKind::flag, "b", {}}, {CellKind::wall_timer, "c", {}}};
  const Layout layout_ = make_layout(cells_, 1, true, 0, {.flags = 2, .timers = 1, .words = 3});

  Result<Layout> change(const std::vector<CellSlot>& next, std::vector<std::optional<uint32_t>> kept) const {
    return change_cells(layout_, kinds_of(cells_), next, kept);
  }
};

TEST_F(SpareCellsTest, GroupsHaveRoom) {
  EXPECT_EQ(layout_.timers - kBlockHeader, 3u * 16);
  EXPECT_EQ(layout_.calls - layout_.timers, 2u * 32);
  EXPECT_EQ(layout_.anomalies - layout_.sums, 4u * 8);
  EXPECT_EQ(layout_.anomalies_end - layout_.anomalies, (3u + 2u) * 16);
  EXPECT_THAT(layout_.timer_cells, ElementsAre(2, kSpareCell));
}

TEST_F(SpareCellsTest, ACellThatStaysKeepsItsPlace) {
  auto next = change({{CellKind::flag, "x", {}}, {CellKind::flag, "b", {}}, {CellKind::counter, "a", {}}},
                     {std::nullopt, 1, 0});
  ASSERT_TRUE(next) << next.error().text;
  EXPECT_EQ(next->cells[1], layout_.cells[1]);
  EXPECT_EQ(next->cells[2], layout_.cells[0]);
  EXPECT_EQ(next->cells[0], layout_.cells[1] + 16);
  EXPECT_THAT(next->timer_cells, ElementsAre(kSpareCell, kSpareCell));
  EXPECT_EQ(next->stride, layout_.stride);
}

TEST_F(SpareCellsTest, RoomOfACellThatGoesIsFreeForTheNextChange) {
  const std::vector<CellSlot> one = {{CellKind::wall_timer, "x", {}}};
  auto next = change(one, {std::nullopt});
  ASSERT_TRUE(next) << next.error().text;
  EXPECT_EQ(next->cells[0], layout_.cells[2] + 32);
  auto third = change_cells(*next, kinds_of(one), one, std::vector<std::optional<uint32_t>>{std::nullopt});
  ASSERT_TRUE(third) << third.error().text;
  EXPECT_EQ(third->cells[0], layout_.cells[2]);
}

TEST_F(SpareCellsTest, NoRoomIsAnError) {
  std::vector<CellSlot> next(5, {CellKind::counter, "sum", {}});
  EXPECT_FALSE(change(next, std::vector<std::optional<uint32_t>>(5)));
  auto keys = change({{CellKind::keys, "keys", {}}}, {std::nullopt});
  ASSERT_FALSE(keys);
  EXPECT_THAT(keys.error().text, HasSubstr("no room left for 'keys'"));
  EXPECT_FALSE(change({{CellKind::histogram, "h", {}}}, {std::nullopt}));
}

TEST_F(SpareCellsTest, ExtremesKeysAndEntriesHaveRoom) {
  const SpareCells spare{.words = 2753, .extremes = 2, .keys = 1, .entries = 1};
  const Layout layout = make_layout(cells_, 1, true, 0, spare);
  EXPECT_TRUE(layout.times_calls);
  EXPECT_EQ(layout.extremes_end - layout.cells_end, 2u * 16);
  const std::vector<CellSlot> next = {{CellKind::minimum, "min", {}},
                                      {CellKind::keys, "keys", {}},
                                      {CellKind::entries, "entries", {}},
                                      {CellKind::histogram, "h", {}}};
  auto changed = change_cells(layout, kinds_of(cells_), next, std::vector<std::optional<uint32_t>>(4));
  ASSERT_TRUE(changed) << changed.error().text;
  EXPECT_EQ(changed->cells[0], layout.cells_end);
  EXPECT_EQ(changed->cells[1], layout.extremes_end);
  EXPECT_EQ(changed->cells[2], layout.extremes_end + 328);
  EXPECT_GE(changed->cells[3], layout.sums);
  EXPECT_LE(changed->cells[3] + 22024, layout.anomalies);
  EXPECT_LE(changed->cells[2] + 16, layout.deferred);
}

TEST_F(SpareCellsTest, AnomaliesBelongToTheirFlag) {
  const auto words = words_of(layout_, layout_.cells[1], CellKind::flag);
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].end - words[0].start, 16u);
  EXPECT_EQ(words[1].start, layout_.anomalies_of(layout_.cells[1]));
  EXPECT_EQ(words_of(layout_, layout_.cells[0], CellKind::counter).size(), 1u);
}

}  // namespace
}  // namespace mdl::resident
