// What a library that came later has in terms of the first binding.
#include "runtime/focus/graft.h"

#include <gmock/gmock.h>

namespace mdl::focus {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GraftTest : public ::testing::Test {
 protected:
  GraftTest() {
    first_.cells = {{format::CellKind::counter, "calls", {}}, {format::CellKind::flag, "in@/Code/a/f", {}}};
    first_.requests = {request("calls", ""), request("calls", "/Code/a/f")};
    // The same in another order, and a child that came later.
    fresh_.cells = {{format::CellKind::flag, "in@/Code/a/f", {}},
                    {format::CellKind::flag, "in@/Code/b/g", {}},
                    {format::CellKind::counter, "calls", {}}};
    fresh_.requests = {request("calls", "/Code/b/g"), request("calls", "/Code/a/f"), request("calls", "")};
  }
  static BoundRequest request(std::string metric, std::string focus) {
    BoundRequest out;
    out.metric = std::move(metric), out.focus = std::move(focus);
    return out;
  }
  void point(const image::Object& object, std::vector<CellId> cells, std::vector<CellId> guards,
             std::vector<uint32_t> requests) {
    BoundSnippet snippet;
    snippet.cells = std::move(cells), snippet.guards = std::move(guards),
    snippet.requests = std::move(requests);
    fresh_.points.push_back({&object, &function_, format::PointKind::entry, 0, {snippet}});
  }

  image::Object old_, added_;
  image::Function function_;
  Binding first_, fresh_;
};

TEST_F(GraftTest, CellsAndRequestsAreThoseOfTheFirst) {
  point(added_, {2}, {0}, {1, 2, 0});
  const Graft out = graft(first_, fresh_, {&added_});
  ASSERT_EQ(out.binding.points.size(), 1u);
  const BoundSnippet& snippet = out.binding.points[0].snippets[0];
  EXPECT_THAT(snippet.cells, ElementsAre(0));
  EXPECT_THAT(snippet.guards, ElementsAre(1));
  EXPECT_THAT(snippet.requests, ElementsAre(1, 0));
  EXPECT_EQ(out.binding.cells.size(), 2u);
  EXPECT_EQ(out.left_out, 0u);
}

TEST_F(GraftTest, WhatHasNoCellIsLeftOut) {
  point(added_, {1}, {}, {0});
  const Graft out = graft(first_, fresh_, {&added_});
  EXPECT_THAT(out.binding.points, IsEmpty());
  EXPECT_EQ(out.left_out, 1u);
}

TEST_F(GraftTest, CellsThatCannotBeToldApartAreNotUsed) {
  fresh_.cells[1].label = "in@/Code/a/f";  // two of one label, where the first has one
  point(added_, {2}, {0}, {2});
  const Graft out = graft(first_, fresh_, {&added_});
  EXPECT_THAT(out.binding.points, IsEmpty());
}

TEST_F(GraftTest, OnlyTheNewObjects) {
  point(old_, {2}, {}, {2});
  EXPECT_THAT(graft(first_, fresh_, {&added_}).binding.points, IsEmpty());
}

TEST_F(GraftTest, BalancesOfTheirFunctions) {
  point(added_, {0}, {}, {1});
  fresh_.balances.push_back({&function_, 0, false, {1}});
  const Graft out = graft(first_, fresh_, {&added_});
  ASSERT_EQ(out.binding.balances.size(), 1u);
  EXPECT_EQ(out.binding.balances[0].flag, 1u);
  EXPECT_THAT(out.binding.balances[0].requests, ElementsAre(1));
}

}  // namespace
}  // namespace mdl::focus
