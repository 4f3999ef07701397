#include "runtime/process/limits.h"

#include <gtest/gtest.h>

namespace mdl::process {
namespace {

TEST(Limits, MemoryThatMayBePromised) {
  const char* meminfo =
      "MemTotal:        8000000 kB\nCommitLimit:     4000000 kB\nCommitted_AS:    3000000 kB\n";
  EXPECT_EQ(left_to_commit("0\n", meminfo), UINT64_MAX);
  EXPECT_EQ(left_to_commit("1\n", meminfo), UINT64_MAX);
  EXPECT_EQ(left_to_commit("2\n", meminfo), uint64_t{1'000'000} << 10);
  EXPECT_EQ(left_to_commit("2\n", "CommitLimit: 1000 kB\nCommitted_AS: 2000 kB\n"), 0u);
  EXPECT_EQ(left_to_commit("2\n", ""), 0u) << "what cannot be read is not taken";
}

}  // namespace
}  // namespace mdl::process
