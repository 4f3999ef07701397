// The lock on a process: one holder, and it goes with its holder.
#include "runtime/process/lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>

namespace mdl::process {
namespace {

using namespace std::chrono_literals;

TEST(TransactionLock, HasOneHolder) {
  auto first = TransactionLock::take(getpid(), 0ms);
  ASSERT_TRUE(first) << first.error().text;
  auto begun = std::chrono::steady_clock::now();
  auto second = TransactionLock::take(getpid(), 30ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 30ms);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text.find("another mdl-inject"), std::string::npos);
  EXPECT_NE(second.error().text.find(std::to_string(getpid())), std::string::npos);
  // Another process is another lock.
  EXPECT_TRUE(TransactionLock::take(getppid(), 0ms));
}

TEST(TransactionLock, EndsWithItsHolder) {
  {
    auto held = TransactionLock::take(getpid(), 0ms);
    ASSERT_TRUE(held);
    std::optional<TransactionLock> moved(std::move(*held));  // one holder still
    EXPECT_FALSE(TransactionLock::take(getpid(), 0ms));
  }
  pid_t target = getpid();
  pid_t child = fork();
  if (child == 0) _exit(TransactionLock::take(target, 0ms) ? 0 : 1);  // dies without giving it back
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(TransactionLock::take(target, 0ms));
}

}  // namespace
}  // namespace mdl::process
