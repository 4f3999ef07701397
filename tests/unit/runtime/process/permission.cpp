// Refusals are decided on text, so that machines that are not at hand can be shown.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "runtime/process/target.h"

namespace mdl::process {
namespace {

constexpr const char* kStatus =
    "Name:\tredis-server\nUmask:\t0077\nState:\tS "
    "(sleeping)\nTgid:\t812\nPid:\t812\nPPid:\t1\nTracerPid:\t0\n"
    "Uid:\t112\t112\t112\t112\nSeccomp:\t2\n";

TEST(Permission, StatusIsRead) {
  ProcessStatus status = parse_status(kStatus);
  EXPECT_EQ(status.name, "redis-server");
  EXPECT_EQ(status.state, 'S');
  EXPECT_EQ(status.uid, 112u);
  EXPECT_EQ(status.seccomp, 2);
  EXPECT_EQ(status.tracer, 0);
  EXPECT_TRUE(status.has_pid);
  EXPECT_EQ(status.group, 812);
  EXPECT_FALSE(parse_status("").has_pid);
}

TEST(Permission, AThreadBelongsToAProcess) {
  ProcessStatus status =
      parse_status("Name:\tio\nState:\tS (sleeping)\nTgid:\t812\nPid:\t815\nTracerPid:\t0\n");
  EXPECT_EQ(status.group, 812);
}

TEST(Permission, ATracerIsNamed) {
  ProcessStatus status = parse_status(kStatus);
  status.tracer = 4711;
  EXPECT_NE(explain_permission(812, status, 0, "").find("already traced by process 4711"), std::string::npos);
}

TEST(Permission, AnotherUserIsNamed) {
  std::string text = explain_permission(812, parse_status(kStatus), 1000, "");
  EXPECT_NE(text.find("uid 112"), std::string::npos);
  EXPECT_NE(text.find("CAP_SYS_PTRACE"), std::string::npos);
}

TEST(Permission, YamaIsNamedWithItsSetting) {
  ProcessStatus status = parse_status(kStatus);
  EXPECT_NE(explain_permission(812, status, 112, "1\n").find("ptrace_scope is 1"), std::string::npos);
  EXPECT_NE(explain_permission(812, status, 112, "2\n").find("ptrace_scope is 2"), std::string::npos);
  EXPECT_NE(explain_permission(812, status, 0, "3\n").find("until the next boot"), std::string::npos);
  EXPECT_EQ(explain_permission(812, status, 112, "0\n").find("ptrace_scope"), std::string::npos);
}

TEST(Permission, ProcessesThatAreNotThere) {
  EXPECT_FALSE(check_target(-4));
  EXPECT_FALSE(check_target(getpid()));
  auto gone = check_target(4194303);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().text.find("there is no process"), std::string::npos);
}

// A process of two threads; it is killed when this goes away.
class TwoThreads {
 public:
  TwoThreads() : pid_(fork()) {
    if (pid_ != 0) return;
    alarm(60);
    std::thread([] { pause(); }).detach();
    while (true) pause();
  }
  ~TwoThreads() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  TwoThreads(const TwoThreads&) = delete;
  TwoThreads& operator=(const TwoThreads&) = delete;

  pid_t pid() const { return pid_; }
  // The thread that is not the first; 0 when it does not start within a few seconds.
  pid_t second() const {
    for (int wait = 0; wait < 3000; ++wait) {
      for (pid_t tid : live_threads(pid_))
        if (tid != pid_) return tid;
      usleep(1000);
    }
    return 0;
  }

 private:
  pid_t pid_;
};

TEST(Permission, AThreadIsRefusedAndItsProcessNamed) {
  TwoThreads process;
  const pid_t thread = process.second();
  ASSERT_NE(thread, 0);
  auto refused = check_target(thread);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find(std::to_string(thread) + " is a thread of process " +
                                      std::to_string(process.pid())),
            std::string::npos)
      << refused.error().text;
  EXPECT_TRUE(check_target(process.pid()));
}

}  // namespace
}  // namespace mdl::process
