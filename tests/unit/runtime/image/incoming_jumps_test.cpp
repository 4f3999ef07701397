#include "runtime/image/incoming_jumps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::image {
namespace {

// Of the C library, whose assembly jumps into functions.
TEST(FarJumps, AreTheSameWhenTheyAreExpected) {
  auto image = read_image(getpid());
  ASSERT_TRUE(image) << image.error().text;
  const auto library =
      std::ranges::find_if(image->objects, [](const Object& one) { return one.name == "libc.so.6"; });
  ASSERT_NE(library, image->objects.end());
  std::vector<Range> some;
  for (const Function& function : library->functions)
    if (function.address % 7 == 0) some.push_back({function.address, function.address + function.size});
  ASSERT_GT(some.size(), 100u);
  const LiveMemory memory(getpid());
  FarJumps each, together;
  together.expect(some);
  size_t found = 0;
  for (const Range& range : some) {
    const auto jumps = each.within(*library, range, memory);
    EXPECT_EQ(together.within(*library, range, memory), jumps);
    EXPECT_EQ(together.into(*library, range, memory), each.into(*library, range, memory));
    found += jumps.size();
  }
  EXPECT_GT(found, 100u);
  const Range between{some.front().end + 1, some.back().start};
  EXPECT_EQ(together.within(*library, between, memory), each.within(*library, between, memory));
}

}  // namespace
}  // namespace mdl::image
