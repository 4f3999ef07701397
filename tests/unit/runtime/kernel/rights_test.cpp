#include "runtime/kernel/rights.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace mdl::kernel {
namespace {

constexpr uint64_t kSetsUser = uint64_t{1} << 7, kTraces = uint64_t{1} << 19;
const std::string kOurs = "user:[1]", kBelow = "user:[2]", kOther = "user:[3]";

Rights user(uint32_t id, uint64_t capabilities = 0, const std::string& users = kOurs) {
  return {{id, id, id, id}, {id, id, id, id}, capabilities, users};
}

TEST(Rights, TheSameAreWithin) {
  EXPECT_TRUE(within(user(1000), user(1000), kOurs));
  EXPECT_FALSE(within(user(1001), user(1000), kOurs));
}

TEST(Rights, ASetUserIdProgramIsNot) {
  const Rights program{{1000, 0, 0, 0}, {1000, 1000, 1000, 1000}, ~uint64_t{0}, kOurs};
  EXPECT_FALSE(within(program, user(1000), kOurs));
  Rights powerless = program;
  powerless.capabilities = 0;
  EXPECT_FALSE(within(powerless, user(1000), kOurs));
}

TEST(Rights, ASetGroupIdProgramIsNot) {
  const Rights program{{1000, 1000, 1000, 1000}, {1000, 42, 42, 42}, 0, kOurs};
  EXPECT_FALSE(within(program, user(1000), kOurs));
}

TEST(Rights, CapabilitiesCountInTheirOwnNamespace) {
  EXPECT_FALSE(within(user(1000, kTraces), user(1000), kOurs));
  EXPECT_TRUE(within(user(1000, kTraces, kBelow), user(1000), kOurs));
  EXPECT_TRUE(within(user(1000), user(1000, kTraces), kOurs));
}

TEST(Rights, WhoMayChangeItsUserHasAllUsers) {
  EXPECT_TRUE(within(user(33), user(0, ~uint64_t{0}), kOurs));
  EXPECT_FALSE(within(user(33), user(0, ~kSetsUser), kOurs));
}

TEST(Rights, FromAContainerNobodyComesToUs) {
  EXPECT_FALSE(within(user(1000), user(1000, ~uint64_t{0}, kBelow), kOurs));
  EXPECT_TRUE(within(user(100000, kTraces, kBelow), user(100000, ~uint64_t{0}, kBelow), kOurs));
  EXPECT_FALSE(within(user(100000, kTraces | kSetsUser, kBelow), user(100000, kTraces, kBelow), kOurs));
  EXPECT_TRUE(within(user(100000, kTraces, kOther), user(100000, 0, kBelow), kOurs));
}

TEST(Rights, AFamilyIsTheNamedAndItsDescendants) {
  Family family(getpid());
  EXPECT_TRUE(family.may_touch(getpid()));
  const pid_t child = fork();
  if (child == 0) pause(), _exit(0);
  EXPECT_TRUE(family.may_touch(child));
  Family childs(child);
  EXPECT_TRUE(childs.may_touch(child));
  EXPECT_FALSE(childs.may_touch(getppid()));
  EXPECT_EQ(errno, EPERM);
  EXPECT_FALSE(childs.may_touch(1));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(childs.may_touch(child));
  EXPECT_EQ(errno, ESRCH);
}

TEST(Rights, NobodyIsNobodysFamily) {
  Family family(0);
  EXPECT_FALSE(family.may_touch(getpid()));
}

}  // namespace
}  // namespace mdl::kernel
