#include "runtime/session/watch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace mdl::inject {
namespace {

using namespace std::chrono_literals;

// A child that sleeps, killed while `wait` waits for it: what is known of its end.
template <typename Wait>
std::optional<int> kill_one(const Wait& wait) {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  auto process = ProcessHandle::open(pid);
  std::optional<int> signal;
  {
    std::jthread parent([&] { wait(pid); });
    kill(pid, SIGKILL);
    if (process && process->ends_within(10s)) signal = process->killed_by();
  }
  waitpid(pid, nullptr, 0);
  return signal;
}

#ifdef MDL_SANITIZED
constexpr int kRounds = 50;  // a fork takes 40 ms
#else
constexpr int kRounds = 500;
#endif

TEST(Processes, EndIsKnownAlsoWhileItsParentWaits) {
  EXPECT_EQ(kill_one([](pid_t) {}), SIGKILL);
  const pid_t waited = fork();
  if (waited == 0) {
    pause();
    _exit(0);
  }
  auto process = ProcessHandle::open(waited);
  ASSERT_TRUE(process);
  EXPECT_FALSE(process->ends_within(0ms));
  kill(waited, SIGKILL);
  waitpid(waited, nullptr, 0);
  if (!process->killed_by()) return;  // Linux before 6.15
  for (int i = 0; i < kRounds; i++)
    ASSERT_EQ(kill_one([](pid_t pid) { waitpid(pid, nullptr, 0); }), SIGKILL) << i;
}

}  // namespace
}  // namespace mdl::inject
