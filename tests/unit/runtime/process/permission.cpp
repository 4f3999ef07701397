// Refusals are decided on text, so that machines that are not at hand can be shown.
#include "runtime/process/permission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "runtime/process/target.h"

namespace mdl::process {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST(Permission, LockedMemoryIsSeen) {
  EXPECT_FALSE(parse_status("VmLck:\t       0 kB\n").locks_memory);
  EXPECT_TRUE(parse_status("VmLck:\t   54320 kB\n").locks_memory);
}

TEST(Permission, AThreadBelongsToAProcess) {
  ProcessStatus status =
      parse_status("Name:\tio\nState:\tS (sleeping)\nTgid:\t812\nPid:\t815\nTracerPid:\t0\n");
  EXPECT_EQ(status.group, 812);
}

// /proc/PID/status of a server of Debian 12, as uid 112; of a shell as uid 1000; of a root shell.
constexpr const char* kServer =
    "Name:\tredis-server\nState:\tS (sleeping)\nTgid:\t812\nPid:\t812\nPPid:\t1\nTracerPid:\t0\n"
    "Uid:\t112\t112\t112\t112\nGid:\t120\t120\t120\t120\nVmSize:\t   70000 kB\n"
    "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
    "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t19\n";
constexpr const char* kUser =
    "Name:\tmdl-inject\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n"
    "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nSeccomp:\t0\n";
constexpr const char* kRoot =
    "Name:\tmdl-inject\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
    "CapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n";
// Root in a container without --cap-add=SYS_PTRACE: Docker's default set.
constexpr const char* kDocker =
    "Name:\tmdl-inject\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
    "CapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\nSeccomp:\t0\n";

Attempt attempt(const char* ours, const char* theirs = kServer) {
  Attempt out;
  out.pid = 812;
  out.target = parse_status(theirs);
  out.theirs = parse_credentials(theirs);
  out.ours = parse_credentials(ours);
  out.our_users = out.their_users = "user:[4026531837]";
  return out;
}
// A process of the same user.
std::string own(const std::string& lines = "") {
  return "Name:\tworker\nTgid:\t812\nPid:\t812\nTracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\n"
         "Gid:\t1000\t1000\t1000\t1000\n" +
         lines;
}
Attempt attempt_own(const std::string& lines = "") {
  return attempt(kUser, own(lines).c_str());
}

TEST(Permission, CredentialsAreRead) {
  Credentials server = parse_credentials(kServer);
  EXPECT_EQ(server.uid[3], 112u);
  EXPECT_EQ(server.gid[0], 120u);
  EXPECT_EQ(server.seccomp, 2);
  EXPECT_EQ(parse_credentials(kDocker).effective, 0xa80425fbu);
  EXPECT_EQ(parse_credentials("").permitted, 0u);
  EXPECT_EQ(capability_names(1u << 10 | 1u << 19), "cap_net_bind_service, cap_sys_ptrace");
  EXPECT_EQ(capability_names(uint64_t{1} << 63), "63");
}

TEST(Permission, ATracerIsNamed) {
  Attempt a = attempt(kRoot);
  a.target.tracer = 4711;
  EXPECT_THAT(explain_permission(a), HasSubstr("already traced by process 4711: detach"));
  a.tracer_name = "gdb";
  EXPECT_THAT(explain_permission(a), HasSubstr("already traced by process 4711 (gdb): detach"));
}

TEST(Permission, AnotherUserIsNamed) {
  std::string text = explain_permission(attempt(kUser));
  EXPECT_THAT(text, HasSubstr("process 812 (redis-server): it runs as uid 112 and you are uid 1000"));
  EXPECT_THAT(text, HasSubstr("CAP_SYS_PTRACE"));
  Attempt group = attempt(kUser, "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t42\t42\t42\n");
  EXPECT_THAT(explain_permission(group),
              HasSubstr("it runs as gid 42 and you are gid 1000 (it runs setgid)"));
}

TEST(Permission, RootWithoutTheCapability) {
  EXPECT_THAT(explain_permission(attempt(kDocker)), HasSubstr("--cap-add=SYS_PTRACE"));
}

TEST(Permission, TracingIsNotOpening) {
  const std::string ours =
      "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nCapPrm:\t0000000000080000\n"
      "CapEff:\t0000000000080000\n";
  Attempt a = attempt(ours.c_str());
  EXPECT_THAT(explain_permission(a), HasSubstr("its memory is a file that only uid 112 may open"));
  a.is_dumpable = false;
  EXPECT_THAT(explain_permission(a), HasSubstr("its memory is a file that only uid 0 may open"));
  // Where that is no obstacle, it is something else.
  EXPECT_THAT(explain_permission(attempt(ours.c_str(), own().c_str())), HasSubstr("a security module"));
  EXPECT_THAT(explain_permission(attempt(kRoot)), HasSubstr("a security module"));
}

TEST(Permission, SetuidIsNamed) {
  Attempt a = attempt(kUser, "Name:\tpasswd\nUid:\t1000\t0\t0\t0\nGid:\t1000\t1000\t1000\t1000\n");
  EXPECT_THAT(explain_permission(a),
              HasSubstr("it runs setuid (real uid 1000, effective uid 0, saved uid 0)"));
  // It gave its privileges up, but could have them back.
  a = attempt(kUser, "Name:\tpasswd\nUid:\t1000\t1000\t0\t1000\nGid:\t1000\t1000\t1000\t1000\n");
  EXPECT_THAT(explain_permission(a), HasSubstr("saved uid 0"));
}

TEST(Permission, NotDumpableIsNamed) {
  Attempt a = attempt_own();
  a.is_dumpable = false;
  EXPECT_THAT(explain_permission(a), HasSubstr("not dumpable"));
  EXPECT_THAT(explain_permission(a), HasSubstr("PR_SET_DUMPABLE"));
}

TEST(Permission, MoreCapabilitiesAreNamed) {
  EXPECT_THAT(explain_permission(attempt_own("CapPrm:\t0000000000000400\n")),
              HasSubstr("capabilities that you do not have (cap_net_bind_service)"));
}

TEST(Permission, YamaIsNamedWithItsSetting) {
  auto with = [](const char* yama, bool descendant) {
    Attempt a = attempt_own();
    a.yama = yama;
    a.is_descendant = descendant;
    return explain_permission(a);
  };
  EXPECT_THAT(with("1", false), HasSubstr("ptrace_scope is 1, and it is no child"));
  EXPECT_THAT(with("1", false), HasSubstr("sysctl kernel.yama.ptrace_scope=0"));
  EXPECT_THAT(with("1", true), Not(HasSubstr("ptrace_scope")));
  EXPECT_THAT(with("2", true), HasSubstr("ptrace_scope is 2: run mdl-inject as root"));
  EXPECT_THAT(with("0", false), Not(HasSubstr("ptrace_scope")));
  EXPECT_THAT(with("", false), Not(HasSubstr("ptrace_scope")));
  Attempt root = attempt(kRoot);  // 3 holds for everybody, and comes first
  root.yama = "3";
  EXPECT_THAT(explain_permission(root),
              HasSubstr("ptrace_scope is 3, which forbids every attach until the next boot"));
  root.yama = "2";
  EXPECT_THAT(explain_permission(root), Not(HasSubstr("ptrace_scope")));
  // Another user's process is that first: the setting alone would not help.
  Attempt other = attempt(kUser);
  other.yama = "1";
  EXPECT_THAT(explain_permission(other), HasSubstr("it runs as uid 112"));
}

TEST(Permission, UserNamespacesAreNamed) {
  Attempt a = attempt(kRoot);
  a.their_users = "user:[4026532300]";
  EXPECT_THAT(explain_permission(a), HasSubstr("another user namespace (user:[4026532300]; you are in"));
  EXPECT_THAT(explain_permission(a), HasSubstr("nsenter -U -t 812"));
  a.their_users = "";  // it cannot be read: not guessed
  EXPECT_THAT(explain_permission(a), Not(HasSubstr("namespace (")));
}

TEST(Permission, ASecurityModuleIsWhatIsLeft) {
  Attempt a = attempt(kRoot);
  a.modules = "capability,yama,apparmor";
  a.label = "docker-default (enforce)";
  EXPECT_THAT(explain_permission(a), HasSubstr("a security module forbids it (capability,yama,apparmor)"));
  EXPECT_THAT(explain_permission(a), HasSubstr("confined as docker-default (enforce)"));
  a.ours.seccomp = 2;
  EXPECT_THAT(explain_permission(a), HasSubstr("runs under a seccomp filter itself"));
}

TEST(Permission, ADescendantWithMoreRightsIsNoSecurityModules) {
  Attempt a = attempt(kRoot);
  a.lesser = 4711;
  EXPECT_THAT(explain_permission(a),
              HasSubstr("it has more rights than process 4711, from which it descends"));
  EXPECT_THAT(explain_permission(a), Not(HasSubstr("a security module")));
}

TEST(Permission, InitIsRefusedWhereTheMachineDependsOnIt) {
  EXPECT_THAT(refuse_init(1, "pid:[4026531836]"), HasSubstr("the system's init"));
  EXPECT_EQ(refuse_init(1, "pid:[4026532301]"), "");  // a container's first process is its program
  EXPECT_EQ(refuse_init(2, "pid:[4026531836]"), "");
  EXPECT_EQ(refuse_init(1, ""), "");
}

TEST(Permission, NoMemoryIsAKernelThread) {
  EXPECT_TRUE(parse_status(kServer).has_memory);
  EXPECT_FALSE(parse_status("Name:\tkthreadd\nState:\tS (sleeping)\nTgid:\t2\nPid:\t2\n").has_memory);
}

// This machine's own: whatever it is, something is said.
TEST(Permission, TheFilesOfThisMachineAreRead) {
  Attempt a = read_attempt(getpid());
  EXPECT_EQ(a.ours.uid[1], geteuid());
  EXPECT_EQ(a.theirs.uid, a.ours.uid);
  EXPECT_TRUE(a.is_dumpable);
  EXPECT_EQ(a.our_users, a.their_users);
  EXPECT_THAT(explain_permission(a), HasSubstr("no permission to attach to process"));
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
