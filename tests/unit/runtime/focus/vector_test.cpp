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

TEST(Vector, ManyMoreThanRequestsMayBe) {
  const PlanMaker maker = counting_hits();
  const image::Image image = process({functions(40000)});
  const auto binding = bind(maker.plan, image, {{"hits@/Code/app/*"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->requests.size(), 40001u);
}

}  // namespace
}  // namespace mdl::focus
