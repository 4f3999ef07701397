// Linkage names in texts that people read.
#include "runtime/image/for_people.h"

#include <gtest/gtest.h>

namespace mdl::image {
namespace {

TEST(ForPeople, NamesInASentence) {
  EXPECT_EQ(for_people("$args.x is not known in _ZN4shop6handleEi: it has `i`"),
            "$args.x is not known in shop::handle(int): it has `i`");
  EXPECT_EQ(for_people("entry of /Code/app/_Z1fv+0x10, and _Z1gi."),
            "entry of /Code/app/f()+0x10, and g(int).");
  EXPECT_EQ(for_people("`_Z1fv.isra.0`"), "`f() (.isra.0)`");
}

TEST(ForPeople, WhatIsNoLinkageNameStays) {
  for (const char* text : {"", "_", "_Z", "my_Z1fv", "_Zulu is here", "_R", "read_RNvC1a1b", "x_"})
    EXPECT_EQ(for_people(text), text);
}

TEST(ForPeople, ALongNameLacksItsMiddle) {
  const std::string shown = for_people("_ZN3one3two5three4four4five3six5sevenEii in app", 20);
  EXPECT_EQ(shown, "one::two:...nt, int) in app");
  EXPECT_EQ(for_people("a_text_that_is_long_but_no_name", 10), "a_text_that_is_long_but_no_name");
}

TEST(ForPeople, ConstructorsAndDestructorsOfOneName) {
  EXPECT_EQ(for_people("_ZN4shop6BasketD0Ev ends"), "shop::Basket::~Basket() (deleting) ends");
  EXPECT_EQ(for_people("_ZN4shop6BasketD2Ev ends"), "shop::Basket::~Basket() ends");
  const auto exactly = [](const char* name) {
    return focus_for_people(std::string("/Code/app/") + name, true);
  };
  EXPECT_EQ(exactly("_ZN4shop6BasketD0Ev"), "/Code/app/shop::Basket::~Basket() (deleting)");
  EXPECT_EQ(exactly("_ZN4shop6BasketD2Ev"), "/Code/app/shop::Basket::~Basket() (base)");
  EXPECT_EQ(exactly("_ZN4shop6BasketC2Ei"), "/Code/app/shop::Basket::Basket(int) (base)");
  EXPECT_EQ(exactly("_ZN4shop6BasketC1Ei"), "/Code/app/shop::Basket::Basket(int) (_ZN4shop6BasketC1Ei)");
  EXPECT_EQ(exactly("_ZN2C24D0EvEv"), for_people("/Code/app/_ZN2C24D0EvEv") + " (_ZN2C24D0EvEv)");
}

TEST(ForPeople, OnlyTheCodeOfAFocus) {
  EXPECT_EQ(focus_for_people("/Code/app/_Z1fv,/Thread/12"), "/Code/app/f(),/Thread/12");
  EXPECT_EQ(focus_for_people("/File/tmp/_Z1fv"), "/File/tmp/_Z1fv");
  EXPECT_EQ(focus_for_people("/File/a,/Code/app/_Z1gi"), "/File/a,/Code/app/g(int)");
  EXPECT_EQ(focus_for_people(""), "");
}

}  // namespace
}  // namespace mdl::image
