// The text of requests and foci, and "did you mean".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/focus/nearest.h"
#include "runtime/focus/request.h"

namespace mdl::focus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Path = std::vector<std::string>;

TEST(ParseFocus, WholeProgram) {
  for (const char* text : {"", "  ", "/Code", "/Code,/Process"}) {
    const auto focus = parse_focus(text);
    ASSERT_TRUE(focus) << text;
    EXPECT_TRUE(focus->resources.empty()) << text;
    EXPECT_EQ(focus->text, "");
  }
}

TEST(ParseFocus, Resources) {
  auto focus = parse_focus("/Code/app/work, /Process/12");
  ASSERT_TRUE(focus);
  EXPECT_THAT(focus->resources, ElementsAre(Path{"Code", "app", "work"}, Path{"Process", "12"}));
  EXPECT_EQ(focus->text, "/Code/app/work,/Process/12");
  focus = parse_focus("/Message/5");
  ASSERT_TRUE(focus);
  EXPECT_THAT(focus->resources, ElementsAre(Path{"SyncObject", "Message", "5"}));
  EXPECT_EQ(focus->text, "/SyncObject/Message/5");
}

TEST(ParseFocus, NamesWithCommasAndSlashes) {
  auto focus = parse_focus("/Code/app/f(int, char const*),/Machine/x");
  ASSERT_TRUE(focus);
  EXPECT_EQ(focus->resources[0][2], "f(int, char const*)");
  EXPECT_EQ(focus->resources.size(), 2u);
  focus = parse_focus("/Code/app/ns::operator/(A, B)");
  ASSERT_TRUE(focus);
  EXPECT_EQ(focus->resources[0][2], "ns::operator/(A, B)");
  focus = parse_focus("/File/etc/passwd");
  ASSERT_TRUE(focus);
  EXPECT_EQ(focus->resources[0][1], "etc/passwd");
}

TEST(ParseFocus, Wrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"Code/app", "begins with `/`"},
      {"app", "begins with `/`"},
      {"/Cod/app", "no hierarchy /Cod"},
      {"/", "no hierarchy /"},
      {"/Code//work", "is empty"},
      {"/Code/app/", "is empty"},
      {"/Code/", "is empty"},
      {"/Code/a,/Code/b", "two resources of /Code"},
      {"/Code/a\n", "control character"},
  };
  for (const auto& [text, why] : cases) {
    const auto focus = parse_focus(text);
    ASSERT_FALSE(focus) << text;
    EXPECT_THAT(focus.error().text, HasSubstr(why)) << text;
    EXPECT_EQ(focus.error().status, Status::usage);
  }
}

TEST(SplitRequest, AtTheFirstAt) {
  EXPECT_EQ(split_request("calls").metric, "calls");
  EXPECT_EQ(split_request("calls").focus, "");
  EXPECT_EQ(split_request("calls@/Code/a/f@@V1").metric, "calls");
  EXPECT_EQ(split_request("calls@/Code/a/f@@V1").focus, "/Code/a/f@@V1");
}

TEST(Nearest, OrdersByDistance) {
  EXPECT_THAT(nearest("lookupkey", {"lookupKeyRead", "lookupKey", "dbAdd"}), ElementsAre("lookupKey"));
  EXPECT_THAT(nearest("cals", {"calls", "call", "balls", "cells", "wait"}),
              ElementsAre("call", "calls"));
  EXPECT_THAT(nearest("counts", {"mounts", "county", "recounts", "count", "sounds"}),
              ElementsAre("count", "county", "mounts"));
  EXPECT_THAT(nearest("main", {"asin"}), IsEmpty());  // half of it
  EXPECT_THAT(nearest("xyz", {"calls"}), IsEmpty());
  EXPECT_THAT(nearest(std::string(100000, 'a'), {std::string(100000, 'b')}), IsEmpty());
  EXPECT_EQ(did_you_mean("cals", {"calls"}), "; did you mean `calls`?");
  EXPECT_EQ(did_you_mean("cals", {"calls", "call", "wait"}), "; did you mean `call` or `calls`?");
  EXPECT_EQ(did_you_mean("x", {"calls"}), "");
  const std::vector<std::string> known = {"_ZN4shop3Buy6handleEv", "shop::Buy::handle",
                                          "shop::Sell<a<int>>::handle", "xhandle"};
  EXPECT_EQ(did_you_mean_function("handle", known),
            "; did you mean `shop::Buy::handle` or `shop::Sell<a<int>>::handle`?");
  EXPECT_EQ(did_you_mean_function("shop::Sell::handle", known),
            "; did you mean `shop::Sell<a<int>>::handle`?");
  EXPECT_EQ(did_you_mean_function("f", {"f.constprop.0", "ns::f(int, char (*)(int)) (.isra.0)", "f2"}),
            "; did you mean `f.constprop.0` or `ns::f(int, char (*)(int)) (.isra.0)`?");
  EXPECT_EQ(did_you_mean_function("new", {"nan", "operator new"}), "; did you mean `\"operator new\"`?");
  EXPECT_EQ(did_you_mean_function("xhandl", known), "; did you mean `xhandle`?");
}

}  // namespace
}  // namespace mdl::focus
