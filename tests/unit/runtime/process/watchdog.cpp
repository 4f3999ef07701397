#include "base/watchdog.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/result.h"

namespace mdl {
namespace {

int status_of(const std::function<void()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    limit_work(std::chrono::milliseconds(300));
    work();
    _exit(99);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

void compute(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) continue;
}

// In a program of its own: in this one another test may have changed a process.
TEST(WatchdogDeathTest, EndsWhatComputesWithoutEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto endless = [] {
    limit_work(std::chrono::milliseconds(300));
    { const Watched call; }
    compute(std::chrono::seconds(20));
  };
  const auto exits_with = [](Status status) { return testing::ExitedWithCode(static_cast<int>(status)); };
  EXPECT_EXIT(endless(), exits_with(Status::failed), "comes to no end");
  EXPECT_EXIT((target_changes(), endless()), exits_with(Status::left_inert), "comes to no end");
}

// A file may have no end of reads.
TEST(WatchdogDeathTest, CallsForFilesAreNoWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto endless = [] {
    limit_work(std::chrono::milliseconds(300));
    for (int i = 0; i < 400; i++) {
      const Watched call(Watched::Of::file);
      compute(std::chrono::milliseconds(50));
    }
  };
  EXPECT_EXIT(endless(), testing::ExitedWithCode(static_cast<int>(Status::failed)), "comes to no end");
}

TEST(WatchdogDeathTest, EndsWhatWaitsForAFile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto waits = [] {
    target_stands(true);
    const Watched call(Watched::Of::file);
    sleep(20);
  };
  EXPECT_EXIT(waits(), testing::KilledBySignal(SIGKILL), "a file of the process does not let itself be read");
}

TEST(Watchdog, LetsWorkBetweenCallsBe) {
  EXPECT_EQ(status_of([] {
              for (int i = 0; i < 10; i++) {
                const Watched call;
                compute(std::chrono::milliseconds(60));
              }
            }),
            99);
}

}  // namespace
}  // namespace mdl
