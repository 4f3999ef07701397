// Placement trees: lists, conditions, modules, exclusions, points, and each error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/focus/exclusion.h"
#include "tests/unit/runtime/focus/process_builder.h"

namespace mdl::focus {
namespace {

using namespace test;
using format::CellKind;
using format::PointKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(Evaluate, ListsMatchInAllObjects) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  maker.list("writers", "procedure", {"write", "alias_of_write", "lib.so/flush", "gone", "app/flush"});
  maker.metric("hits", {foreach_("f", list("writers"), {append(field(variable("f"), "entry"), hit)})});
  const image::Image image =
      process({"app: main", "lib.so: write=alias_of_write flush", "libc.so: write flush"});
  const auto binding = bind(maker.plan, image, {{"hits"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->points.size(), 3u);  // both write, one flush: one address once
  for (const BoundPoint& point : binding->points) EXPECT_EQ(point.snippets.size(), 1u);
  EXPECT_THAT(binding->requests[0].missing, ElementsAre("gone", "app/flush"));
  for (const BoundPoint& point : binding->points)
    if (point.function->name == "flush") {
      EXPECT_EQ(point.object->name, "lib.so");
    }
}

TEST(Evaluate, ItemsThatArePatterns) {
  const image::Image image =
      process({"app: main getA _ZN2ns3getEPc", "lib.so: getB get* put", "ld.so: getC"});
  const auto found = [&](std::vector<std::string> items) {
    PlanMaker maker;
    const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
    maker.list("some", "procedure", std::move(items));
    maker.metric("hits", {foreach_("f", list("some"), {append(field(variable("f"), "entry"), hit)})});
    std::vector<std::string> names;
    const auto binding = bind(maker.plan, image, {{"hits"}, {}, ""});
    if (!binding) return std::vector{binding.error().text};
    for (const BoundPoint& point : binding->points)
      names.push_back(point.object->name + "/" + point.function->name);
    return names;
  };
  EXPECT_THAT(found({"get?"}), ElementsAre("app/getA", "lib.so/getB", "lib.so/get*"));
  EXPECT_THAT(found({"ns::*"}), ElementsAre("app/_ZN2ns3getEPc"));
  EXPECT_THAT(found({"lib.so/*"}), ElementsAre("lib.so/getB", "lib.so/get*", "lib.so/put"));
  EXPECT_THAT(found({"l*/get?"}), ElementsAre("lib.so/getB", "lib.so/get*"));
  EXPECT_THAT(found({"*/put"}), ElementsAre("lib.so/put"));
  EXPECT_THAT(found({"l*/gone"}), ElementsAre(HasSubstr("looks for l*/gone")));
  EXPECT_THAT(found({"x*/put"}), ElementsAre(HasSubstr("no object fits `x*`")));
  EXPECT_THAT(found({"get*"}), ElementsAre("lib.so/get*"));  // it is the name of one
  EXPECT_THAT(found({"main", "set*"}), ElementsAre("app/main"));
  EXPECT_THAT(found({"app/set*"}), ElementsAre(HasSubstr("looks for app/set*")));
}

TEST(Evaluate, AFunctionIsItsAddressInCode) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits", CellKind::counter, 1);
  maker.plan.stencils[hit].info.constants = {variable("f")};
  maker.metric("hits", {foreach_("f", procedures(), {append(field(variable("f"), "entry"), hit)})});
  const image::Image image = process({"app: main work"});
  const auto binding = bind(maker.plan, image, {});
  ASSERT_TRUE(binding) << binding.error().text;
  for (const BoundPoint& point : binding->points)
    EXPECT_THAT(point.snippets[0].constants, ElementsAre(static_cast<int64_t>(point.function->address)));
}

TEST(Evaluate, AnObjectIsWhereItsCodeBegins) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits", CellKind::counter, 1);
  maker.plan.stencils[hit].info.constants = {variable("m")};
  const std::vector<format::Placement> body = {append(field(variable("f"), "entry"), hit)};
  maker.metric("hits", {foreach_("m", modules(), {foreach_("f", field(variable("m"), "funcs"), body)})});
  image::Image image = process({"app: main work", "lib.so: put"});
  for (image::Object& object : image.objects.own())
    object.text = {
        {object.functions.front().address & ~uint64_t{4095}, object.functions.back().address + 64}};
  const auto binding = bind(maker.plan, image, {});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->points.size(), 3u);
  for (const BoundPoint& point : binding->points)
    EXPECT_THAT(point.snippets[0].constants,
                ElementsAre(static_cast<int64_t>(point.object->text.front().start)));
}

TEST(Evaluate, AMetricWithoutItsProcedures) {
  PlanMaker maker = standard();
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  maker.list("redis", "procedure", {"lookupkey", "dbAdd"});
  maker.metric("hits", {foreach_("f", list("redis"), {append(field(variable("f"), "entry"), hit)})});
  const image::Image image = process({"app: main lookupKey"});
  const auto all = bind(maker.plan, image, {});
  ASSERT_TRUE(all) << all.error().text;
  EXPECT_EQ(all->requests.size(), 2u);
  EXPECT_THAT(all->left_out, ElementsAre(Pair("hits", HasSubstr("looks for lookupkey, dbAdd"))));
  EXPECT_THAT(
      why(maker.plan, image, {{"hits"}, {}, ""}),
      HasSubstr("looks for lookupkey, dbAdd, which the process does not have; did you mean `lookupKey`?"));
}

TEST(Evaluate, Conditions) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  const auto only = [&](format::Expr condition) {
    maker.plan.manifest.metrics.clear();
    maker.metric("hits",
                 {foreach_("f", procedures(),
                           {if_(std::move(condition), {append(field(variable("f"), "entry"), hit)})})});
    const image::Image image = process({"app: main work _ZN2ns1fEi", "lib.so: main"});
    const auto binding = bind(maker.plan, image, {});
    std::vector<std::string> names;
    if (!binding) return names;
    for (const BoundPoint& point : binding->points)
      names.push_back(point.object->name + "/" + point.function->name);
    return names;
  };
  const format::Expr name = field(variable("f"), "name");
  EXPECT_THAT(only(binary(name, "==", text("main"))), ElementsAre("app/main", "lib.so/main"));
  EXPECT_THAT(only(binary(text("work"), "==", name)), ElementsAre("app/work"));
  EXPECT_THAT(only(binary(name, "==", text("ns::f"))), ElementsAre("app/_ZN2ns1fEi"));
  EXPECT_THAT(only(binary(name, "==", text("ns::f(int)"))), ElementsAre("app/_ZN2ns1fEi"));
  EXPECT_THAT(only(binary(name, "!=", text("main"))), ElementsAre("app/work", "app/_ZN2ns1fEi"));
  const format::Expr module = field(field(variable("f"), "module"), "name");
  EXPECT_THAT(only(binary(module, "==", text("lib.so"))), ElementsAre("lib.so/main"));
  EXPECT_THAT(only(binary(binary(name, "==", text("main")), "&&", binary(module, "==", text("app")))),
              ElementsAre("app/main"));
  EXPECT_THAT(only(binary(binary(name, "==", text("work")), "||", binary(module, "==", text("lib.so")))),
              ElementsAre("app/work", "lib.so/main"));
  EXPECT_EQ(only(binary(number(2), "<", number(10))).size(), 4u);
  EXPECT_THAT(only(binary(binary(number(7), "/", number(0)), "!=", number(0))), IsEmpty());
  EXPECT_EQ(only(binary(binary(number(INT64_MIN), "/", number(-1)), "==", number(INT64_MIN))).size(), 4u);
}

// Nothing is wrong with a condition that is false everywhere: what it guards counts 0.
TEST(Evaluate, AConditionThatIsNeverTrue) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  const format::Placement never = if_(number(0), {append(field(variable("f"), "entry"), hit)});
  maker.list("some", "procedure", {"main", "gone"});
  maker.metric("hits", {foreach_("f", list("some"), {never})});
  const image::Image image = process({"app: main work"});
  const auto binding = bind(maker.plan, image, {{"hits"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->requests.size(), 1u);
  EXPECT_TRUE(binding->requests[0].idle);
  EXPECT_THAT(binding->points, IsEmpty());
  EXPECT_THAT(binding->requests[0].missing, ElementsAre("gone"));
  maker.plan.manifest.lists[0].items = {"gone"};  // but where nothing is found, that is said
  EXPECT_THAT(why(maker.plan, image, {{"hits"}, {}, ""}), HasSubstr("looks for gone"));
}

TEST(Evaluate, Modules) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  maker.list("libs", "module", {"lib.so", "gone.so"});
  const auto body = [&](const char* m) {
    return std::vector<format::Placement>{
        foreach_("f", field(variable(m), "funcs"), {append(field(variable("f"), "entry"), hit)})};
  };
  const image::Image image = process({"app: main", "lib.so: help", "ld.so: x"});
  maker.metric("hits", {foreach_("m", modules(), body("m"))});
  auto binding = bind(maker.plan, image, {});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->points.size(), 2u);
  maker.plan.manifest.metrics.clear();
  maker.metric("hits", {foreach_("m", list("libs"), body("m"))});
  binding = bind(maker.plan, image, {});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->points.size(), 1u);
  EXPECT_THAT(binding->requests[0].missing, ElementsAre("gone.so"));
  maker.list("fitting", "module", {"l*", "x*", "lib.so"});
  maker.plan.manifest.metrics.clear();
  maker.metric("hits", {foreach_("m", list("fitting"), body("m"))});
  binding = bind(maker.plan, image, {});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->points.size(), 1u);
  EXPECT_EQ(binding->points[0].function->name, "help");
  EXPECT_EQ(binding->points[0].snippets.size(), 1u);
  EXPECT_THAT(binding->requests[0].missing, ElementsAre("x*"));
}

TEST(Evaluate, Flavors) {
  PlanMaker maker = standard();
  maker.plan.manifest.metrics[1].flavors = {"mpi"};
  const image::Image image = process({"app: main"});
  EXPECT_EQ(bind(maker.plan, image, {})->requests.size(), 1u);
  EXPECT_THAT(why(maker.plan, image, {{"returns"}, {}, ""}), HasSubstr("is of flavor mpi"));
  EXPECT_EQ(why(maker.plan, image, {{"returns"}, {}, "mpi"}), "");
  EXPECT_THAT(why(maker.plan, image, {{}, {}, "none"}), HasSubstr("no metric of flavor `none`"));
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  maker.list("mpi_only", "procedure", {"main"});
  maker.plan.manifest.lists[0].flavors = {"mpi"};
  maker.metric("hits", {foreach_("f", list("mpi_only"), {append(field(variable("f"), "entry"), hit)})});
  EXPECT_THAT(why(maker.plan, image, {{"hits"}, {}, ""}),
              HasSubstr("mpi_only has nothing for the flavor `unix`"));
  maker.plan.manifest.lists[0].flavors.clear();
  maker.plan.manifest.lists[0].items.clear();
  EXPECT_THAT(why(maker.plan, image, {{"hits"}, {}, ""}),
              HasSubstr("mpi_only has nothing for the flavor `unix`"));
}

TEST(Evaluate, WhatIsNeverInstrumented) {
  PlanMaker maker = standard();
  maker.plan.manifest.excludes = {{"/Code/lib.so/malloc", false, false},
                                  {"/Code/BIG.SO", false, true},
                                  {"^/Code/.*/debug_", true, false}};
  const image::Image image =
      process({"app: main _start _init vfork __sigsetjmp __fentry__ ifunc_memcpy debug_dump",
               "lib.so: malloc free mallocated f=__tls_get_addr", "big.so: a b"});
  const auto binding = bind(maker.plan, image, {{"calls"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  std::vector<std::string> names;
  for (const BoundPoint& point : binding->points) names.push_back(point.function->name);
  EXPECT_THAT(names, ElementsAre("main", "free", "mallocated"));
  const auto focus = [&](const std::string& name) {
    return why(maker.plan, image, {{"calls@/Code/" + name}, {}, ""});
  };
  EXPECT_THAT(focus("lib.so/malloc"), HasSubstr("the plan excludes it"));
  EXPECT_THAT(focus("app/__fentry__"), HasSubstr("calling convention"));
  EXPECT_THAT(focus("app/ifunc_memcpy"), HasSubstr("IFUNC"));
  EXPECT_EQ(focus("app/vfork"), "");  // may be named
}

TEST(Evaluate, BadExclusions) {
  PlanMaker maker = standard();
  const image::Image image = process({"app: main"});
  for (const std::string& pattern : {std::string("("), std::string(5000, '('),
                                     std::string("(((a{200}){200}){200}){200}"), std::string("(a*)*\\1b")}) {
    maker.plan.manifest.excludes = {{pattern, true, false}};
    const auto binding = bind(maker.plan, image, {});
    ASSERT_FALSE(binding);
    EXPECT_EQ(binding.error().status, Status::plan_rejected);
  }
}

// Code of its own for each call, block and loop; a post at a call is another point.
TEST(Evaluate, PointsHaveAPlace) {
  PlanMaker maker;
  const uint32_t before = maker.stencil("hits_call", PointKind::call_before, "hits");
  const uint32_t after = maker.stencil("hits_call_after", PointKind::call_after, "hits");
  const uint32_t block = maker.stencil("hits_block", PointKind::block, "hits");
  const uint32_t exit = maker.stencil("hits_loop_exit", PointKind::loop_exit, "hits");
  image::Image image = process({"app: main"});
  image.objects.own()[0].text = {{0x400000, 0x401000}};
  // 0: call 0x400100; 5: dec %edi; 7: jne 5; 9: ret, then padding
  std::vector<std::byte> bytes(0x1000, std::byte{0x90});
  const uint8_t code[] = {0xe8, 0xfb, 0, 0, 0, 0xff, 0xcf, 0x75, 0xfc, 0xc3};
  for (size_t i = 0; i < std::size(code); ++i) bytes[i] = std::byte{code[i]};
  const image::BufferMemory memory(std::move(bytes), 0x400000);
  image::Codes codes(image, memory);
  format::Placement post = append(variable("c"), after);
  post.when = format::When::post;
  const format::Expr f = variable("f");
  maker.metric("hits",
               {foreach_("f", procedures(),
                         {foreach_("c", field(f, "calls"), {append(variable("c"), before), post}),
                          foreach_("b", field(f, "blocks"), {append(variable("b"), block)}),
                          foreach_("l", field(f, "loops"), {append(field(variable("l"), "exit"), exit)})})});
  const auto binding = bind(maker.plan, image, {}, &codes);
  ASSERT_TRUE(binding) << binding.error().text;
  std::vector<std::pair<PointKind, uint64_t>> points;
  for (const BoundPoint& point : binding->points) points.emplace_back(point.kind, point.place - 0x400000);
  EXPECT_THAT(points, ElementsAre(std::pair(PointKind::call_before, 0), std::pair(PointKind::call_after, 0),
                                  std::pair(PointKind::block, 0), std::pair(PointKind::block, 5),
                                  std::pair(PointKind::block, 9), std::pair(PointKind::loop_exit, 5)));
}

TEST(Evaluate, StartIsMainAndWhatThreadsBeganWith) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  const image::Image image = process({"app: main work idle"});
  format::Expr start;
  start.kind = format::ExprKind::start;
  maker.metric("hits", {append(field(start, "entry"), hit)});
  EXPECT_TRUE(uses_start(maker.plan.manifest));
  const uint64_t inside = function(image, "app", "work").address + 3;
  image::Image with_text = image;
  with_text.objects.own()[0].text = {{0x400000, 0x401000}};
  BindOptions options;
  options.starts = {inside, inside};
  const auto binding = bind(maker.plan, with_text, options);
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->points.size(), 2u);
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "hits_entry[0]");
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry), "hits_entry[0]");
}

// What no compiler of ours writes, and a hostile plan may have.
TEST(Evaluate, RefusesPlacementsWithoutMeaning) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  const uint32_t with_constant = maker.stencil("hits_entry.2", kEntry, "hits", CellKind::counter, 1);
  const uint32_t foreign = maker.stencil("foreign", kEntry, "nobody's");
  const image::Image image = process({"app: main work"});
  const auto error = [&](format::Placement placement) {
    maker.plan.manifest.metrics.clear();
    maker.metric("hits", {std::move(placement)});
    return why(maker.plan, image, {});
  };
  const auto each = [](format::Placement p) { return foreach_("f", procedures(), {std::move(p)}); };
  const format::Expr entry = field(variable("f"), "entry");
  EXPECT_EQ(error(each(append(entry, hit))), "");
  EXPECT_THAT(error(each(append(field(variable("f"), "return"), hit))),
              HasSubstr("not made for return points"));
  EXPECT_THAT(error(each(append(field(variable("f"), "calls"), hit))),
              HasSubstr("the code of no function is known here"));
  EXPECT_THAT(error(each(append(field(variable("f"), "colour"), hit))), HasSubstr("not a field"));
  EXPECT_THAT(error(each(append(variable("f"), hit))), HasSubstr("points only"));
  EXPECT_THAT(error(each(append(number(1), hit))), HasSubstr("points only"));
  EXPECT_THAT(error(append(entry, hit)), HasSubstr("no variable `f`"));
  EXPECT_THAT(error(each(append(entry, 99))), HasSubstr("not in the plan"));
  EXPECT_THAT(error(each(append(entry, foreign))), HasSubstr("which its owner does not have"));
  EXPECT_THAT(error(each(append(entry, with_constant))), HasSubstr("no resource is selected"));
  EXPECT_THAT(error(append(field(selected(0), "entry"), hit)), HasSubstr("no resource is selected"));
  EXPECT_THAT(error(foreach_("f", number(3), {})), HasSubstr("needs a list"));
  EXPECT_THAT(error(foreach_("f", list("none"), {})), HasSubstr("no list `none`"));
  EXPECT_THAT(error(each(if_(text("x"), {}))), HasSubstr("must be a number"));
  EXPECT_THAT(error(each(if_(binary(text("x"), "<", text("y")), {}))), HasSubstr("cannot be applied"));
  format::Placement post = append(entry, hit);
  post.when = format::When::post;
  EXPECT_THAT(error(each(post)), HasSubstr("postInsn"));
  EXPECT_THAT(error(each(append(entry, 99))), HasSubstr("metric `hits`, line 8"));
}
}  // namespace
}  // namespace mdl::focus
