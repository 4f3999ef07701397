#include "runtime/image/budget.h"

#include <gtest/gtest.h>

namespace mdl::image {
namespace {

TEST(Budget, HasNoEndWhereNothingIsSaid) {
  const Budget budget;
  EXPECT_TRUE(budget.spend(uint64_t{1} << 60));
  EXPECT_TRUE(budget.keep(uint64_t{1} << 60));
  EXPECT_FALSE(budget.is_spent());
}

TEST(Budget, OfAnObjectEndsAndStaysSo) {
  const auto common = std::make_shared<Budget::Common>();
  const Budget budget(1 << 20, 0, common);
  const auto any = static_cast<uint64_t>(common->steps.load());
  EXPECT_TRUE(budget.spend(12 << 20));  // a few looks at each byte
  EXPECT_TRUE(budget.spend(any));       // which nobody else has
  EXPECT_FALSE(budget.spend(any));
  EXPECT_TRUE(budget.is_spent());
  EXPECT_FALSE(budget.spend(0));
  EXPECT_FALSE(budget.keep(1));
}

TEST(Budget, HasOneCommonPartForManySmallObjects) {
  const auto common = std::make_shared<Budget::Common>();
  const uint64_t half = static_cast<uint64_t>(common->kept.load()) / 2 + 1;
  const Budget first(0, 0, common), second(0, 0, common), third(1 << 24, 0, common);
  EXPECT_TRUE(first.keep(half));
  EXPECT_FALSE(second.keep(half));
  EXPECT_TRUE(third.keep(half));  // of its own
  EXPECT_FALSE(first.is_spent());
}

}  // namespace
}  // namespace mdl::image
