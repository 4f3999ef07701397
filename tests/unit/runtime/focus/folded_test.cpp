#include "runtime/focus/folded.h"

#include <gtest/gtest.h>

namespace mdl::focus {
namespace {

TEST(Folded, NamesThatAreAlike) {
  EXPECT_TRUE(are_alike("open", "__open64"));
  EXPECT_TRUE(are_alike("__libc_malloc", "malloc"));
  EXPECT_TRUE(are_alike("shop::Cart::Cart", "shop::Cart::Cart"));
  EXPECT_TRUE(are_alike("_", "___"));
  EXPECT_FALSE(are_alike("gamma", "delta"));
  EXPECT_FALSE(are_alike("pick<long>", "pick<long long>"));
}

}  // namespace
}  // namespace mdl::focus
