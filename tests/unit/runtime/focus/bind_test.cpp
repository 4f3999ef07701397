// Binding: order of code, sharing of constraints, foci, lists, conditions, and each error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

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
using testing::Not;

constexpr PointKind kEntry = PointKind::entry, kReturn = PointKind::return_;

// The standard library's procedure_calls and procedure_returns with both constraints.
PlanMaker standard() {
  PlanMaker maker;
  const uint32_t calls = maker.stencil("calls_entry", kEntry, "calls");
  const uint32_t returns = maker.stencil("returns_return", kReturn, "returns");
  maker.procedure_constraint();
  maker.module_constraint();
  maker.metric("calls",
               {foreach_("f", procedures(), {constrained(append(field(variable("f"), "entry"), calls))})},
               {"procedure", "module"});
  maker.metric("returns",
               {foreach_("f", procedures(), {constrained(prepend(field(variable("f"), "return"), returns))})},
               {"procedure", "module"});
  return maker;
}

std::string why(const plan::Plan& plan, const image::Image& image, const BindOptions& options) {
  const auto binding = bind(plan, image, options);
  return binding ? "" : binding.error().text;
}

std::vector<std::string> foci_of(const Binding& binding) {
  std::vector<std::string> foci;
  for (const BoundRequest& request : binding.requests) foci.push_back(request.focus);
  return foci;
}

TEST(Bind, EveryMetricAtTheWholeProgram) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main work", "lib.so: help", "ld.so: _dl_open"});
  const auto binding = bind(maker.plan, image, {});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->requests.size(), 2u);
  EXPECT_EQ(binding->requests[0].metric, "calls");
  EXPECT_EQ(binding->requests[0].focus, "");
  EXPECT_EQ(binding->requests[0].definition, &maker.plan.manifest.metrics[0]);
  EXPECT_EQ(binding->points.size(), 6u);  // entry and return of main, work, help
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry), "calls_entry[0]");
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kReturn), "returns_return[1]");
  EXPECT_EQ(code_at(*binding, maker.plan, "_dl_open", kEntry), "");
  EXPECT_TRUE(binding->balances.empty());
  EXPECT_EQ(binding->cells[binding->requests[0].value].label, "calls");
}

TEST(Bind, AProcedureFocus) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main work"});
  const auto binding = bind(maker.plan, image, {{"calls@/Code/app/work", "returns@/Code/app/work"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  // One flag for both requests: cell 0. Raised before the count, counted before it is lowered.
  EXPECT_EQ(binding->cells[0].label, "procedure@/Code/app/work");
  EXPECT_EQ(binding->cells[0].kind, CellKind::flag);
  EXPECT_EQ(binding->cells[1].label, "calls@/Code/app/work");
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry), "procedure_entry[0] calls_entry[1]{0}");
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kReturn), "returns_return[2]{0} procedure_return[0]");
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "calls_entry[1]{0}");
  ASSERT_EQ(binding->balances.size(), 1u);
  EXPECT_EQ(binding->balances[0].function, &function(image, "app", "work"));
  EXPECT_EQ(binding->balances[0].flag, 0u);
  EXPECT_THAT(binding->balances[0].requests, ElementsAre(0, 1));
  for (const BoundPoint& point : binding->points)
    for (const BoundSnippet& snippet : point.snippets)
      if (snippet.guards.empty()) {
        EXPECT_THAT(snippet.requests, ElementsAre(0, 1));
      }
}

TEST(Bind, AModuleFocus) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main work", "lib.so: help"});
  const auto binding = bind(maker.plan, image, {{"calls"}, {"/Code/app"}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry), "module_entry[0] calls_entry[1]{0}");
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kReturn), "module_return[0]");
  EXPECT_EQ(code_at(*binding, maker.plan, "help", kEntry), "calls_entry[1]{0}");
  EXPECT_EQ(binding->balances.size(), 2u);
}

TEST(Bind, DifferentResourcesHaveDifferentFlags) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main work=also"});
  const auto binding =
      bind(maker.plan, image, {{"calls"}, {"/Code/app/work", "/Code/app/main", "/Code/app/also"}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_THAT(foci_of(*binding), ElementsAre("/Code/app/work", "/Code/app/main", "/Code/app/also"));
  // `also` is work's other name: the same flag (0), a value of its own (4).
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry),
            "procedure_entry[0] calls_entry[1]{0} calls_entry[3]{2} calls_entry[4]{0}");
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry),
            "calls_entry[1]{0} procedure_entry[2] calls_entry[3]{2} calls_entry[4]{0}");
  EXPECT_EQ(binding->balances.size(), 2u);
  EXPECT_THAT(binding->balances[0].requests, ElementsAre(0, 2));
}

TEST(Bind, OneRequestTwiceIsOne) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main"});
  const auto binding = bind(maker.plan, image, {{"calls", "calls", "calls@"}, {"", "/Code"}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_THAT(foci_of(*binding), ElementsAre(""));
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "calls_entry[0]");
}

TEST(Bind, ARequestsOwnFocusWins) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main work"});
  const auto binding =
      bind(maker.plan, image, {{"calls@/Code/app/work", "calls@", "calls"}, {"/Code/app"}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_THAT(foci_of(*binding), ElementsAre("/Code/app/work", "", "/Code/app"));
}

TEST(Bind, PatternsAskForEachChild) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main work worse _ZN2ns1fEv", "lib.so: help", "ld.so: x"});
  const auto foci = [&](const std::string& focus) {
    const auto binding = bind(maker.plan, image, {{"calls"}, {focus}, ""});
    EXPECT_TRUE(binding) << binding.error().text;
    return binding ? foci_of(*binding) : std::vector<std::string>{};
  };
  EXPECT_THAT(foci("/Code/app/wor*"), ElementsAre("/Code/app/work", "/Code/app/worse"));
  EXPECT_THAT(foci("/Code/app/mai?"), ElementsAre("/Code/app/main"));
  EXPECT_THAT(foci("/Code/app/ns::*"), ElementsAre("/Code/app/_ZN2ns1fEv"));
  EXPECT_THAT(foci("/Code/app/*").size(), 4u);
  EXPECT_THAT(foci("/Code/*"), ElementsAre("/Code/app", "/Code/lib.so"));
  EXPECT_THAT(foci("/Code/*.so"), ElementsAre("/Code/lib.so"));
  EXPECT_THAT(foci("/Process/*"), ElementsAre("/Process/4711"));
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/app/x*"}, ""}), HasSubstr("no function fits"));
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/x*"}, ""}), HasSubstr("no object"));
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/*/main"}, ""}), HasSubstr("only the last"));
}

TEST(Bind, AFunctionIsNamedAsItIsDemangled) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main _ZN2ns1fEPc"});
  for (const char* name : {"_ZN2ns1fEPc", "ns::f", "ns::f(char*)"}) {
    const auto binding = bind(maker.plan, image, {{"calls"}, {std::string("/Code/app/") + name}, ""});
    ASSERT_TRUE(binding) << binding.error().text;
    EXPECT_EQ(binding->balances.at(0).function->name, "_ZN2ns1fEPc");
  }
}

TEST(Bind, FunctionsOfOneNameAreOneResource) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main helper helper"});
  for (const char* focus : {"/Code/app/helper", "/Code/app/help*"}) {
    const auto binding = bind(maker.plan, image, {{"calls"}, {focus}, ""});
    ASSERT_TRUE(binding) << binding.error().text;
    EXPECT_THAT(foci_of(*binding), ElementsAre("/Code/app/helper"));
    ASSERT_EQ(binding->balances.size(), 2u);
    EXPECT_EQ(binding->balances[0].flag, binding->balances[1].flag);
  }
}

TEST(Bind, ProcessAndMachineNeedNoConstraint) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main"});
  const auto binding = bind(maker.plan, image, {{"calls@/Process/4711"}, {}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_THAT(foci_of(*binding), ElementsAre("/Process/4711"));
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "calls_entry[0]");
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Process/1"}, {}, ""}), HasSubstr("the process is 4711"));
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Machine/no-such-host."}, {}, ""}), HasSubstr("runs on"));
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Thread/1"}, {}, ""}), HasSubstr("no such thread"));
}

TEST(Bind, AMissingConstraintIsNamed) {
  PlanMaker maker = standard();
  maker.plan.manifest.metrics[0].constraints = {"module"};
  const image::Image image = process({"app: main"});
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Code/app/main"}, {}, ""}),
              HasSubstr("no constraint for /Code/*/*"));
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Message/7"}, {}, ""}),
              HasSubstr("no constraint for /SyncObject/Message/*"));
  EXPECT_EQ(why(maker.plan, image, {{"calls@/Code/app"}, {}, ""}), "");
  // A metric that was not named is left out where it has no constraint ...
  const auto binding = bind(maker.plan, image, {{}, {"/Code/app/main"}, ""});
  ASSERT_TRUE(binding) << binding.error().text;
  ASSERT_EQ(binding->requests.size(), 1u);
  EXPECT_EQ(binding->requests[0].metric, "returns");
  // ... unless nothing is left.
  EXPECT_THAT(why(maker.plan, image, {{}, {"/Message/7"}, ""}), HasSubstr("no constraint for"));
}

TEST(Bind, Suggests) {
  const PlanMaker maker = standard();
  const image::Image image = process({"redis-server: main lookupKey _ZN2ns5frontEv"});
  EXPECT_THAT(why(maker.plan, image, {{"cals"}, {}, ""}),
              HasSubstr("no metric `cals`; did you mean `calls`?"));
  EXPECT_THAT(why(maker.plan, image, {{"xxxxxxx"}, {}, ""}), HasSubstr("it has calls, returns"));
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Code/redis/main"}, {}, ""}), HasSubstr("no object `redis`"));
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Code/redis-sever/main"}, {}, ""}),
              HasSubstr("did you mean `redis-server`?"));
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Code/redis-server/lookupkey"}, {}, ""}),
              HasSubstr("did you mean `lookupKey`?"));
  EXPECT_THAT(why(maker.plan, image, {{"calls@/Code/redis-server/ns::fron"}, {}, ""}),
              HasSubstr("did you mean `ns::front`?"));
}

TEST(Bind, ListsMatchInAllObjects) {
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

TEST(Bind, AMetricWithoutItsProcedures) {
  PlanMaker maker = standard();
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  maker.list("redis", "procedure", {"lookupkey", "dbAdd"});
  maker.metric("hits", {foreach_("f", list("redis"), {append(field(variable("f"), "entry"), hit)})});
  const image::Image image = process({"app: main lookupKey"});
  const auto all = bind(maker.plan, image, {});
  ASSERT_TRUE(all) << all.error().text;
  EXPECT_EQ(all->requests.size(), 2u);
  EXPECT_THAT(
      why(maker.plan, image, {{"hits"}, {}, ""}),
      HasSubstr("looks for lookupkey, dbAdd, which the process does not have; did you mean `lookupKey`?"));
}

TEST(Bind, Conditions) {
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

TEST(Bind, Modules) {
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
}

TEST(Bind, OrderAtAPoint) {
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

TEST(Bind, ConstraintsInTheMetricsOrder) {
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

TEST(Bind, AReplacementStandsForTheBase) {
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

TEST(Bind, AReplacementCountsInItsOwnCell) {
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
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry),
            "calls_entry[" + std::to_string(whole) + "] own_entry[" + std::to_string(value) + "]");
}

TEST(Bind, ADefaultConstraintNeedsNoCode) {
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

TEST(Bind, Flavors) {
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
  EXPECT_NE(why(maker.plan, image, {{"hits"}, {}, ""}), "");
}

TEST(Bind, WhatIsNeverInstrumented) {
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

TEST(Bind, BadExclusions) {
  PlanMaker maker = standard();
  const image::Image image = process({"app: main"});
  for (const std::string& pattern :
       {std::string("("), std::string(5000, '('), std::string("(((a{200}){200}){200}){200}")}) {
    maker.plan.manifest.excludes = {{pattern, true, false}};
    const auto binding = bind(maker.plan, image, {});
    ASSERT_FALSE(binding);
    EXPECT_EQ(binding.error().status, Status::plan_rejected);
  }
}

// Code of its own for each call, block and loop; a post at a call is another point.
TEST(Bind, PointsHaveAPlace) {
  PlanMaker maker;
  const uint32_t before = maker.stencil("hits_call", PointKind::call_before, "hits");
  const uint32_t after = maker.stencil("hits_call_after", PointKind::call_after, "hits");
  const uint32_t block = maker.stencil("hits_block", PointKind::block, "hits");
  const uint32_t exit = maker.stencil("hits_loop_exit", PointKind::loop_exit, "hits");
  image::Image image = process({"app: main"});
  image.objects[0].text = {{0x400000, 0x401000}};
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

TEST(Bind, StartIsMainAndWhatThreadsBeganWith) {
  PlanMaker maker;
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  const image::Image image = process({"app: main work idle"});
  format::Expr start;
  start.kind = format::ExprKind::start;
  maker.metric("hits", {append(field(start, "entry"), hit)});
  EXPECT_TRUE(uses_start(maker.plan.manifest));
  const uint64_t inside = function(image, "app", "work").address + 3;
  image::Image with_text = image;
  with_text.objects[0].text = {{0x400000, 0x401000}};
  BindOptions options;
  options.starts = {inside, inside};
  const auto binding = bind(maker.plan, with_text, options);
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->points.size(), 2u);
  EXPECT_EQ(code_at(*binding, maker.plan, "main", kEntry), "hits_entry[0]");
  EXPECT_EQ(code_at(*binding, maker.plan, "work", kEntry), "hits_entry[0]");
}

// What no compiler of ours writes, and a hostile plan may have.
TEST(Bind, RefusesPlacementsWithoutMeaning) {
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

image::Image large_process(size_t functions) {
  std::string objects[] = {"app:", "libc.so:"};
  for (size_t i = 0; i < functions; ++i) objects[i % 2] += " function_number_" + std::to_string(i);
  return process({objects[0], objects[1]});
}

TEST(Bind, ManyFunctionsInWellUnderASecond) {
  const PlanMaker maker = standard();
  const image::Image image = large_process(30000);
  const std::clock_t start = std::clock();
  const auto binding = bind(maker.plan, image, {{"calls"}, {"/Code/app"}, ""});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->points.size(), 45000u);
  EXPECT_EQ(binding->balances.size(), 15000u);
  EXPECT_LT(seconds, 3);  // 0.1 in an optimized build; anything quadratic takes minutes
}

TEST(Bind, BoundsItsWork) {
  PlanMaker maker = standard();
  const image::Image image = large_process(30000);
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/app/*"}, ""}), HasSubstr("narrower"));
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/app/*2"}, ""}), HasSubstr("narrower"));
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  maker.metric("hits",
               {foreach_("f", procedures(),
                         {foreach_("g", procedures(), {append(field(variable("g"), "entry"), hit)})})});
  EXPECT_THAT(why(maker.plan, image, {{"hits"}, {}, ""}), HasSubstr("too long"));
}

}  // namespace
}  // namespace mdl::focus
