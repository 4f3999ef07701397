// Binding: the order of code at a point, constraints and replacements.
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

TEST(BindCode, OrderAtAPoint) {
  PlanMaker maker;
  const uint32_t a = maker.stencil("a", kEntry, "m"), b = maker.stencil("b", kEntry, "m"),
                 c = maker.stencil("c", kEntry, "m"), d = maker.stencil("d", kEntry, "n");
  maker.list("mains", "procedure", {"main"});
  const auto each = [](std::vector<format::Placement> body) {
    return std::vector<format::Placement>{foreach_("f", list("mains"), std::move(body))};
  };
  const format::Expr entry = field(variable("f"), "entry");
  maker.metric("m", each({append(entry, a), prepend(entry, b), append(entry, c)}));
  maker.metric("n", each({prepend(entry, d)}));
  const image::Image image = process({"app: main"});
  auto binding = bind(maker.plan, image, {});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "d[1] b[0] a[0] c[0]");
  binding = bind(maker.plan, image, {{"n", "m"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "b[1] d[0] a[1] c[1]");
}

TEST(BindCode, ConstraintsInTheMetricsOrder) {
  PlanMaker maker = standard();
  format::Constraint tag;
  tag.name = "tag";
  tag.path = {"SyncObject", "Message", "*"};
  tag.cells = {{"tag", CellKind::flag}};
  maker.list("mains", "procedure", {"main"});
  const uint32_t raise = maker.stencil("tag_entry", kEntry, "tag", CellKind::flag, 2);
  tag.placement = {foreach_("f", list("mains"), {constrained(append(field(variable("f"), "entry"), raise))})};
  maker.plan.manifest.constraints.push_back(tag);
  const image::Image image = process({"app: main work"});
  for (const bool tag_first : {true, false}) {
    maker.plan.manifest.metrics[0].constraints = {tag_first ? "tag" : "procedure",
                                                  tag_first ? "procedure" : "tag"};
    const auto binding = bind(maker.plan, image, {{"calls@/Code/app/main,/Message/42"}, {}, ""});
    if (tag_first) {
      ASSERT_FALSE(binding);  // $constraint[1] of a message is its kind, which is no number
      EXPECT_THAT(binding.error().text, HasSubstr("is no number"));
      maker.plan.stencils[raise].info.constants.resize(1);
    }
  }
  maker.plan.manifest.metrics[0].constraints = {"tag", "procedure"};
  auto binding = bind(maker.plan, image, {{"calls@/Code/app/main,/Message/42"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry),
            "tag_entry[0] procedure_entry[1] calls_entry[2]{0,1}");
  maker.plan.manifest.metrics[0].constraints = {"procedure", "tag"};
  binding = bind(maker.plan, image, {{"calls@/Code/app/main,/Message/42"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  // `constrained` in a constraint means the constraints before it.
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry),
            "procedure_entry[0] tag_entry[1]{0} calls_entry[2]{0,1}");
  for (const BoundPoint& point : binding->points)
    for (const BoundSnippet& snippet : point.snippets)
      if (snippet.stencil == raise) {
        EXPECT_THAT(snippet.constants, ElementsAre(42));
      }
  EXPECT_EQ(binding->balances.size(), 1u);  // tag has no return: nothing to balance
  // With and without the guard are two instances.
  binding = bind(maker.plan, image, {{"calls@/Message/42", "calls@/Code/app/main,/Message/42"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry),
            "tag_entry[0] calls_entry[1]{0} procedure_entry[2] tag_entry[3]{2} calls_entry[4]{2,3}");
}

TEST(BindCode, AReplacementStandsForTheBase) {
  PlanMaker maker = standard();
  const uint32_t own = maker.stencil("own_entry", kEntry, "calls");
  format::Constraint replacement;
  replacement.name = "inline";
  replacement.path = {"Code", "*", "*"};
  replacement.replaces = true;
  replacement.placement = {append(field(selected(0), "entry"), own)};
  maker.plan.manifest.metrics[0].replacements = {replacement};
  const image::Image image = process({"app: main work"});
  const auto binding = bind(maker.plan, image, {{"calls"}, {"/Code/app/work"}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->points.size(), 1u);
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry), "own_entry[0]");
}

TEST(BindCode, AReplacementCountsInItsOwnCell) {
  PlanMaker maker = standard();
  const uint32_t own = maker.stencil("own_entry", kEntry, "inline");
  format::Constraint replacement;
  replacement.name = "inline";
  replacement.path = {"Code", "*", "*"};
  replacement.replaces = true;
  replacement.cells = {{"inline", CellKind::counter}};
  replacement.placement = {append(field(selected(0), "entry"), own)};
  maker.plan.manifest.metrics[0].replacements = {replacement};
  const image::Image image = process({"app: main work"});
  const auto binding = bind(maker.plan, image, {{"calls", "calls@/Code/app/work"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->requests.size(), 2u);
  const CellId whole = binding->requests[0].value, value = binding->requests[1].value;
  EXPECT_EQ(binding->cells[whole].label, "calls");
  EXPECT_EQ(binding->cells[value].label, "inline@/Code/app/work");
  EXPECT_EQ(binding->cells.size(), 2u);  // nobody uses calls@/Code/app/work
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry),
            "calls_entry[" + std::to_string(whole) + "] own_entry[" + std::to_string(value) + "]");
}

TEST(BindCode, ADefaultConstraintNeedsNoCode) {
  PlanMaker maker = standard();
  format::Constraint any;
  any.name = "any";
  any.path = {"SyncObject", "Message"};
  any.is_default = true;
  maker.plan.manifest.constraints.push_back(any);
  maker.plan.manifest.metrics[0].constraints = {"any"};
  const image::Image image = process({"app: main"});
  const auto binding = bind(maker.plan, image, {{"calls"}, {"/SyncObject/Message"}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "calls_entry[0]");
}

// Code at $points is laid behind all other, whichever request comes first; $cost is what the whole point
// takes.
TEST(BindCode, EveryPointAndItsCost) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  const uint32_t every = maker.stencil("spent_every", PointKind::every, "spent", CellKind::counter, 1);
  plan::Plan& plan = maker.plan;
  plan.stencils[hit].cost = {.cycles = 1000, .routine_ns = 7};
  plan.stencils[every].cost = {.cycles = 200};
  plan.stencils[every].info.constants[0] = {};
  plan.stencils[every].info.constants[0].kind = format::ExprKind::cost;
  format::Expr points;
  points.kind = format::ExprKind::points;
  maker.metric("spent", {append(points, every)});
  maker.metric("hits", {foreach_("f", procedures(), {append(field(variable("f"), "entry"), hit)})});
  const image::Image image = process({"app: main work"});
  BindOptions options;
  options.ps_per_cycle = 500;
  const auto binding = bind(plan, image, options);
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->points.size(), 2u);
  for (const BoundPoint& point : binding->points) {
    ASSERT_EQ(point.snippets.size(), 2u);
    EXPECT_EQ(point.snippets[0].stencil, hit);
    EXPECT_EQ(point.snippets[1].stencil, every);
    // 10 and 2 cycles of 0.5 ns and 7 ns of a routine, and the way there and back.
    const int64_t cost = point.snippets[1].constants.at(0);
    EXPECT_GT(cost, 13'000);
    EXPECT_LT(cost, 15'000);
  }
  options.metrics = {"spent"};
  const auto alone = bind(plan, image, options);
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().text.find("what other requests insert: ask for another one, too"),
            std::string::npos);
}

}  // namespace
}  // namespace mdl::focus
