// What is said of a session to people.
#include "runtime/session/report.h"

#include <gtest/gtest.h>

namespace mdl::inject {
namespace {

TEST(Report, WhoWaitsForSecondsIsToldWhy) {
  EXPECT_EQ(patience_text(0), "");
  EXPECT_EQ(patience_text(4000), "");
  EXPECT_EQ(patience_text(77083), "looking at the code of 77083 points, which takes some seconds\n");
}

}  // namespace
}  // namespace mdl::inject
