// Requests with `*`: what lies at a point does not depend on how many children there are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/focus/process_builder.h"

namespace mdl::focus {
namespace {

using namespace test;
using format::CellKind;
using format::PointKind;
using testing::ElementsAre;
using testing::HasSubstr;

PlanMaker counting_hits() {
  PlanMaker maker;
  const uint32_t count = maker.stencil("hits_entry", PointKind::entry, "hits");
  maker.procedure_constraint();
  maker.module_constraint();
  maker.list("hit", "procedure", {"hit"});
  maker.metric("hits",
               {foreach_("f", list("hit"), {constrained(append(field(variable("f"), "entry"), count))})},
               {"procedure", "module"});
  maker.plan.manifest.metrics[0].additive = true;
  return maker;
}

std::string functions(size_t count) {
  std::string object = "app: hit";
  for (size_t i = 1; i < count; ++i) object += " f" + std::to_string(i);
  return object;
}

const BoundPoint* point_of(const Binding& binding, const std::string& name, PointKind kind) {
  for (const BoundPoint& point : binding.points)
    if (point.function->name == name && point.kind == kind) return &point;
  return nullptr;
}

TEST(Vector, ThePointOfTheBaseIsTheSameForAnyNumber) {
  const PlanMaker maker = counting_hits();
  for (const size_t count : {1, 10, 1000}) {
    const image::Image image = process({functions(count)});
    const auto binding = bind(maker.plan, image, {{"hits@/Code/app/*"}, {}, ""});
    ASSERT_TRUE(binding) << binding.error().text;
    ASSERT_EQ(binding->requests.size(), count + 1);
    EXPECT_EQ(binding->requests[0].children, count);
    EXPECT_EQ(binding->tracks.size(), count);
    const BoundPoint* base = point_of(*binding, "hit", PointKind::entry);
    ASSERT_TRUE(base);
    ASSERT_EQ(base->snippets.size(), 2u);  // hit's own flag with its span, the base
    EXPECT_EQ(base->snippets[0].tracks.size(), 1u);
    EXPECT_TRUE(base->snippets[1].guards.empty());
    EXPECT_TRUE(base->snippets[1].tracks.empty());
    EXPECT_THAT(base->snippets[1].requests, ElementsAre(0));
    if (count > 1) {
      const BoundPoint* other = point_of(*binding, "f1", PointKind::return_);
      ASSERT_TRUE(other);
      ASSERT_EQ(other->snippets.size(), 1u);
      EXPECT_EQ(other->snippets[0].tracks.size(), 1u);
    }
  }
}

TEST(Vector, ChildrenHaveSpansOfTheBase) {
  const PlanMaker maker = counting_hits();
  const image::Image image = process({functions(3)});
  const auto binding = bind(maker.plan, image, {{"hits@/Code/app/*"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  for (size_t i = 1; i < binding->requests.size(); ++i) {
    const BoundRequest& child = binding->requests[i];
    EXPECT_EQ(child.of, 0u);
    EXPECT_EQ(binding->cells[child.value].kind, CellKind::span_);
    EXPECT_EQ(binding->tracks[i - 1].span, child.value);
    EXPECT_EQ(binding->tracks[i - 1].base, binding->requests[0].value);
    EXPECT_EQ(binding->cells[binding->tracks[i - 1].flag].kind, CellKind::flag);
  }
}

TEST(Vector, AFlagIsShared) {
  const PlanMaker maker = counting_hits();
  const image::Image image = process({functions(3)});
  const auto binding = bind(maker.plan, image, {{"hits@/Code/app/f1", "hits@/Code/app/*"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  // f1 has its request already; the others are children.
  ASSERT_EQ(binding->requests.size(), 4u);
  EXPECT_EQ(binding->requests[1].children, 2u);
  const BoundPoint* entry = point_of(*binding, "f1", PointKind::entry);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->snippets.size(), 1u);
}

TEST(Vector, WhatIsNotAdditiveIsBoundOneByOne) {
  PlanMaker maker = counting_hits();
  maker.plan.manifest.metrics[0].additive = false;
  const image::Image image = process({functions(10)});
  const auto binding = bind(maker.plan, image, {{"hits@/Code/app/*"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->requests.size(), 10u);
  EXPECT_TRUE(binding->tracks.empty());
  EXPECT_EQ(point_of(*binding, "hit", PointKind::entry)->snippets.size(), 11u);
}

// A timer that the functions `timed` start and stop.
PlanMaker timing(std::vector<std::string> timed) {
  PlanMaker maker;
  const uint32_t start = maker.stencil("time_entry", PointKind::entry, "time", CellKind::wall_timer);
  const uint32_t stop = maker.stencil("time_return", PointKind::return_, "time", CellKind::wall_timer);
  maker.plan.stencils[start].info.cells[0].starts = true;
  maker.procedure_constraint();
  maker.module_constraint();
  maker.list("timed", "procedure", std::move(timed));
  maker.metric("time",
               {foreach_("f", list("timed"),
                         {constrained(append(field(variable("f"), "entry"), start)),
                          constrained(prepend(field(variable("f"), "return"), stop))})},
               {"procedure", "module"});
  maker.plan.manifest.metrics[0].cells[0].kind = CellKind::wall_timer;
  maker.plan.manifest.metrics[0].additive = true;
  return maker;
}

TEST(Vector, ATimerAnswersForTheFunctionsThatStartIt) {
  const PlanMaker maker = timing({"f1", "f2"});
  const image::Image image = process({functions(5)});
  const auto binding = bind(maker.plan, image, {{"time@/Code/app/*"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->requests.size(), 6u);  // the vector, two children, three of their own
  EXPECT_EQ(binding->requests[0].children, 2u);
  EXPECT_EQ(binding->cells[binding->requests[0].value].kind, CellKind::wall_timer);
  for (size_t i = 1; i < 6; ++i)
    EXPECT_EQ(binding->cells[binding->requests[i].value].kind,
              i <= 2 ? CellKind::span_ : CellKind::wall_timer);
  // f1's flag and its span, the vector's timer, those of the three others behind their guards.
  EXPECT_EQ(code_at(*binding, maker.plan, "f1", PointKind::entry),
            "procedure_entry[1] time_entry[0] time_entry[6]{5} time_entry[8]{7} time_entry[10]{9}");
  const BoundPoint* leave = point_of(*binding, "f1", PointKind::return_);
  ASSERT_TRUE(leave);
  EXPECT_EQ(leave->snippets.back().tracks.size(), 1u);  // the flag falls last, and is tracked
  size_t balanced = 0;
  for (const Balance& balance : binding->balances) balanced += balance.flag == binding->requests[0].value;
  EXPECT_EQ(balanced, 2u);
}

TEST(Vector, ATimerUnderAnotherFlagIsBoundOneByOne) {
  const PlanMaker maker = timing({"f1", "f2"});
  const image::Image image = process({functions(5)});
  const auto module = bind(maker.plan, image, {{"time@/Code/*"}, {}, ""});
  ASSERT_TRUE(module) << module.error().text;
  EXPECT_TRUE(module->tracks.empty());  // hit and others of the object do not start it
}

TEST(Vector, ManyMoreThanRequestsMayBe) {
  const PlanMaker maker = counting_hits();
  const image::Image image = process({functions(40000)});
  const auto binding = bind(maker.plan, image, {{"hits@/Code/app/*"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->requests.size(), 40001u);
}

}  // namespace
}  // namespace mdl::focus
