#include "base/watchdog.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(Watchdog, EndsWhatComputesWithoutEnd) {
  const auto endless = [] {
    { const Watched call; }
    compute(std::chrono::seconds(20));
  };
  EXPECT_EQ(status_of(endless), static_cast<int>(Status::failed));
  EXPECT_EQ(status_of([&] { target_changes(), endless(); }), static_cast<int>(Status::left_inert));
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
