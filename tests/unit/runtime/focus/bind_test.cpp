// Binding: requests, foci, sharing of constraints, bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/unit/runtime/focus/process_builder.h"

namespace mdl::focus {
namespace {

using namespace test;
using format::CellKind;
using format::PointKind;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr PointKind kReturn = PointKind::return_;

std::vector<std::string> foci_of(const Binding& binding) {
  std::vector<std::string> foci;
  for (const BoundRequest& request : binding.requests) foci.push_back(request.focus);
  return foci;
}

image::Image large_process(size_t functions) {
  std::string objects[] = {"app:", "libc.so:"};
  for (size_t i = 0; i < functions; ++i) objects[i % 2] += " function_number_" + std::to_string(i);
  return process({objects[0], objects[1]});
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
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/app/f*"}, ""}), HasSubstr("or class: `*::f*`"));
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/x*"}, ""}), HasSubstr("no object"));
}

TEST(Bind, ThePatternOfAnObjectAsksForEachFunctionInEach) {
  const PlanMaker maker = standard();
  const image::Image image =
      process({"app: main get", "liba.so: get=fetch got main", "libb.so: get", "ld.so: get _dl_open"});
  const auto foci = [&](const std::string& focus) {
    const auto binding = bind(maker.plan, image, {{"calls"}, {focus}, ""});
    EXPECT_TRUE(binding) << binding.error().text;
    return binding ? foci_of(*binding) : std::vector<std::string>{};
  };
  EXPECT_THAT(foci("/Code/lib*/get"), ElementsAre("/Code/liba.so/get", "/Code/libb.so/get"));
  EXPECT_THAT(foci("/Code/lib?.so/g*"),
              ElementsAre("/Code/liba.so/get", "/Code/liba.so/got", "/Code/libb.so/get"));
  EXPECT_THAT(foci("/Code/*/fetch"), ElementsAre("/Code/liba.so/fetch"));  // by its other name
  EXPECT_THAT(foci("/Code/*/*").size(), 6u);
  const auto reason = [&](const std::string& focus) {
    return why(maker.plan, image, {{"calls"}, {focus}, ""});
  };
  EXPECT_THAT(reason("/Code/lib*/gett"),
              HasSubstr("no object that fits has a function `gett`; did you mean"));
  EXPECT_THAT(reason("/Code/lib*/x*"), HasSubstr("no function fits the pattern"));
  EXPECT_THAT(reason("/Code/xyz*/get"), HasSubstr("it has `app`, `liba.so`, `libb.so`, `ld.so`"));
  EXPECT_THAT(reason("/Code/ld*/get"),
              HasSubstr("a pattern does not stand for `ld.so`; name it: /Code/ld.so/get"));
  BindOptions later{{"calls@/Code/x*/get"}, {}, ""};
  later.await = true;
  EXPECT_THAT(why(maker.plan, image, later), HasSubstr("is not known before the object is there"));
}

TEST(Bind, AFunctionIsNamedAsItIsDemangled) {
  const PlanMaker maker = standard();
  const image::Image image = process({"app: main _ZN2ns1fEPc _ZN1aIS_IiEE1fEv"});
  const auto named = [&](const std::string& name) {
    const auto binding = bind(maker.plan, image, {{"calls"}, {"/Code/app/" + name}, ""});
    EXPECT_TRUE(binding) << name;
    return binding ? binding->balances.at(0).function->name : "";
  };
  for (const char* name : {"_ZN2ns1fEPc", "ns::f", "ns::f(char*)"}) EXPECT_EQ(named(name), "_ZN2ns1fEPc");
  for (const char* name : {"a<a<int>>::f", "a<a<int> >::f", "a<a<int> >::f()"})
    EXPECT_EQ(named(name), "_ZN1aIS_IiEE1fEv");
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

TEST(Bind, ManyFunctionsInWellUnderASecond) {
  const PlanMaker maker = standard();
  const image::Image image = large_process(30000);
  const std::clock_t start = std::clock();
  const auto binding = bind(maker.plan, image, {{"calls"}, {"/Code/app"}, ""});
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(binding) << binding.error().text;
  EXPECT_EQ(binding->points.size(), 45000u);
  EXPECT_EQ(binding->balances.size(), 15000u);
#ifdef MDL_SANITIZED
  constexpr double kMost = 20;
#else
  constexpr double kMost = 3;
#endif
  EXPECT_LT(seconds, kMost);  // 0.1 in an optimized build; anything quadratic takes minutes
}

TEST(Bind, BoundsItsWork) {
  PlanMaker maker = standard();
  const image::Image image = large_process(6000);
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/app/*"}, ""}), HasSubstr("narrower"));
  EXPECT_THAT(why(maker.plan, image, {{"calls"}, {"/Code/app/*2"}, ""}), HasSubstr("`by function`"));
  const uint32_t hit = maker.stencil("hits_entry", kEntry, "hits");
  maker.metric("hits",
               {foreach_("f", procedures(),
                         {foreach_("g", procedures(), {append(field(variable("g"), "entry"), hit)})})});
  EXPECT_THAT(why(maker.plan, image, {{"hits"}, {}, ""}), HasSubstr("too long"));
  EXPECT_THAT(why(maker.plan, large_process(262200), {{"calls"}, {"/Code/app/*"}, ""}),
              HasSubstr("more than 131072 requests"));
}

// Each evaluation takes what one may, and all of them together more than all may.
TEST(Bind, BoundsTheWorkOfAllRequests) {
  PlanMaker maker = standard();
  maker.metric("idle", {foreach_("f", procedures(), {foreach_("g", procedures(), {})})},
               {"procedure", "module"});
  EXPECT_THAT(why(maker.plan, large_process(1900), {{"idle"}, {"/Code/app/*"}, ""}), HasSubstr("too long"));
}
}  // namespace
}  // namespace mdl::focus
