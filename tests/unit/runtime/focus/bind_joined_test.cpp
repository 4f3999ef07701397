// Bindings of several plans as one: each has its own cells, requests and tables.
#include "runtime/focus/bind_joined.h"

#include <gmock/gmock.h>

#include "runtime/plan/join.h"

namespace mdl::focus {
namespace {

using ::testing::ElementsAre;

// calls@/Code/a/f by key, with a flag and a child.
Binding one(const image::Function& function) {
  Binding out;
  out.cells = {{format::CellKind::flag, "in@/Code/a/f", {}}, {format::CellKind::counter, "calls", {}}};
  BoundRequest request;
  request.metric = "calls", request.value = 1, request.children = 1;
  out.requests = {request};
  request.of = 0, request.children = 0;
  out.requests.push_back(request);
  BoundSnippet snippet;
  snippet.stencil = 2;
  snippet.cells = {1}, snippet.guards = {0}, snippet.requests = {0, 1}, snippet.keys = 0;
  snippet.tracks = {{0, 1, 1}};
  out.points = {{nullptr, &function, format::PointKind::entry, 0, {snippet}}};
  out.balances = {{&function, 0, false, {0}}};
  KeyTable table;
  table.request = 0, table.of = {1}, table.change = 0, table.keys = 1, table.base = 1, table.caller = 0;
  out.key_tables = {table};
  out.symbols[2] = {};
  return out;
}

TEST(BindJoined, WhatComesStandsBehindWhatIsThere) {
  const image::Function function{};
  Binding all = one(function);
  append(all, one(function), 5, " (2)");
  EXPECT_EQ(all.cells[2].label, "in@/Code/a/f (2)");
  EXPECT_EQ(all.requests[2].value, 3u);
  EXPECT_EQ(all.requests[2].of, BoundRequest::kNone);
  EXPECT_EQ(all.requests[3].of, 2u);
  ASSERT_EQ(all.points.size(), 1u);  // the same
  ASSERT_EQ(all.points[0].snippets.size(), 2u);
  const BoundSnippet& snippet = all.points[0].snippets[1];
  EXPECT_EQ(snippet.stencil, 7u);
  EXPECT_THAT(snippet.cells, ElementsAre(3));
  EXPECT_THAT(snippet.guards, ElementsAre(2));
  EXPECT_THAT(snippet.requests, ElementsAre(2, 3));
  EXPECT_EQ(snippet.keys, 1u);
  EXPECT_EQ(snippet.tracks[0].span, 3u);
  EXPECT_EQ(all.balances[1].flag, 2u);
  EXPECT_THAT(all.balances[1].requests, ElementsAre(2));
  EXPECT_EQ(all.key_tables[1].request, 2u);
  EXPECT_EQ(all.key_tables[1].base, 3u);
  EXPECT_EQ(all.key_tables[1].caller, 2u);
  EXPECT_TRUE(all.symbols.contains(2) && all.symbols.contains(7));
}

TEST(BindJoined, AnotherPointIsAnother) {
  const image::Function function{}, other{};
  Binding all = one(function);
  append(all, one(other), 5, " (2)");
  ASSERT_EQ(all.points.size(), 2u);
  EXPECT_EQ(all.points[1].function, &other);
}

plan::Plan plan_of(const std::string& metric) {
  plan::Plan out;
  out.manifest.target = "x86_64";
  out.manifest.metrics.emplace_back().id = metric;
  out.stencils.resize(3);
  out.stencils[0].info.name = "calls_entry";
  return out;
}

TEST(Join, PartsKeepTheirOwnNames) {
  const plan::Plan own = plan_of("calls");
  plan::Plan guest = plan_of("count f if $arg[0] == '@'");
  plan::tag_metrics(guest, " (2)");
  EXPECT_EQ(guest.manifest.metrics[0].id, "count f if $arg[0] == '?' (2)");
  EXPECT_EQ(guest.manifest.metrics[0].name, "count f if $arg[0] == '@'");
  const plan::Part part{.plan = std::make_shared<plan::Plan>(guest), .tag = " (2)", .first_stencil = 3};
  const plan::Plan all = plan::join(own, {&part, 1});
  ASSERT_EQ(all.stencils.size(), 6u);
  EXPECT_EQ(all.parts[1].first_stencil, 3u);
  EXPECT_NE(all.stencils[3].info.name, all.stencils[0].info.name);  // whose code it is
  EXPECT_EQ(all.parts[0].plan.get(), &own);
}

TEST(Join, StencilsKeepTheirPlace) {
  const plan::Plan own = plan_of("calls");
  const auto guest = std::make_shared<plan::Plan>(plan_of("others"));
  const auto part = [&](uint32_t first) {
    return plan::Part{.plan = guest, .tag = " (2)", .first_stencil = first};
  };
  EXPECT_EQ(plan::place_for(own, {}, *guest), 3u);
  const std::vector<plan::Part> both = {part(6), part(3)};
  EXPECT_EQ(plan::place_for(own, both, *guest), 9u);
  EXPECT_EQ(plan::place_for(own, std::span(both).first(1), *guest), 3u);  // where one has gone
  EXPECT_EQ(plan::join(own, std::span(both).first(1)).stencils[6].info.name, " (2) calls_entry");
}

TEST(Join, WhatWouldChangeTheOthersIsRefused) {
  const plan::Plan own = plan_of("calls");
  plan::Plan guest = plan_of("calls");
  EXPECT_TRUE(plan::may_join(own, guest));
  guest.manifest.excludes.push_back({"/Code/x/*"});
  EXPECT_FALSE(plan::may_join(own, guest));
  guest = plan_of("calls");
  guest.manifest.statements.emplace_back();
  EXPECT_FALSE(plan::may_join(own, guest));
  guest = plan_of("calls");
  guest.manifest.target = "aarch64";
  EXPECT_FALSE(plan::may_join(own, guest));
}

}  // namespace
}  // namespace mdl::focus
