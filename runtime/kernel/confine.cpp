#include "runtime/kernel/confine.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <initializer_list>

#include "runtime/kernel/direct.h"

namespace mdl::kernel {
namespace {

// The first of them. Only this worker's: no other process of the machine has it, so none can send it a signal, nor gets
// one from it.
constexpr uid_t kUsers = 1'700'000'000, kMostIds = uid_t{1} << 22, kOverflow = 65534;

constexpr rlim_t kMostMemory = rlim_t{8} << 30;

void limit(__rlimit_resource what, rlim_t most) {
  rlimit now{};
  if (getrlimit(what, &now) != 0) return;
  const rlimit less{std::min(now.rlim_cur, most), std::min(now.rlim_max, most)};
  setrlimit(what, &less);
}

// An empty folder that nobody can write to becomes the root. What cannot be done stays undone: the filter forbids
// to open anything anyway.
void leave_files() {
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET) != 0 && unshare(CLONE_NEWNS) != 0) return;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  if (mount("none", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=0,mode=0555") != 0)
    return;
  if (chroot("/proc") == 0) (void)!chdir("/");
}

void leave_user() {
  if (geteuid() != 0) return;
  const uid_t own = kUsers + static_cast<uid_t>(getpid());
  (void)!setgroups(0, nullptr);
  for (uid_t id : {own, kOverflow})
    if (setresgid(id, id, id) == 0 && setresuid(id, id, id) == 0) return;
}

// Before the user, who may do it no more.
void leave_bounds() {
  for (int one = 0; prctl(PR_CAPBSET_READ, one) >= 0; one++) prctl(PR_CAPBSET_DROP, one);
}

bool leave_capabilities() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  return syscall(SYS_capset, &head, none) == 0;
}

class Filter {
 public:
  Filter() : rules_(seccomp_init(SCMP_ACT_ERRNO(EPERM))), whole_(rules_ != nullptr) {}
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() {
    if (rules_) seccomp_release(rules_);
  }
  void allow(std::initializer_list<int> calls) {
    for (int call : calls) whole_ = whole_ && seccomp_rule_add(rules_, SCMP_ACT_ALLOW, call, 0) == 0;
  }
  // Where the argument has one of these values.
  void allow(int call, unsigned argument, std::initializer_list<uint64_t> values) {
    for (uint64_t value : values)
      whole_ = whole_ &&
               seccomp_rule_add(rules_, SCMP_ACT_ALLOW, call, 1, SCMP_CMP(argument, SCMP_CMP_EQ, value)) == 0;
  }
  // Where none of these bits of the argument is set.
  void allow_without(int call, unsigned argument, uint64_t bits) {
    whole_ = whole_ && seccomp_rule_add(rules_, SCMP_ACT_ALLOW, call, 1,
                                        SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, bits, 0)) == 0;
  }
  void deny(int call, int error) {
    whole_ = whole_ && seccomp_rule_add(rules_, SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), call, 0) == 0;
  }
  bool load() const { return whole_ && seccomp_load(rules_) == 0; }

 private:
  scmp_filter_ctx rules_;
  bool whole_;
};

bool filter_calls() {
  Filter filter;
  // Open files, and what poll and signalfd tell of them.
  filter.allow({SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(writev),
                SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(fgetxattr),
                SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(signalfd4), SCMP_SYS(recvmsg), SCMP_SYS(pipe2),
                SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(close_range), SCMP_SYS(flock)});
  filter.allow(SCMP_SYS(fcntl), 1, {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC});
  filter.allow(SCMP_SYS(ioctl), 1, {TCGETS, TIOCGWINSZ, TIOCGPGRP, direct::kPidfdInfo});
  // Memory. Some becomes code: the worker measures on itself what a hit takes (arch/hit_time.h).
  filter.allow_without(SCMP_SYS(mmap), 2, PROT_EXEC);
  filter.allow({SCMP_SYS(mprotect), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
                SCMP_SYS(mincore)});
  // Threads, and the processes of base/confined.h.
  filter.allow_without(SCMP_SYS(clone), 0,
                       CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                           CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_PTRACE | CLONE_PARENT);
  filter.deny(SCMP_SYS(clone3), ENOSYS);  // its flags cannot be seen here; the C library calls clone then
  filter.allow({SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(sched_yield),
                SCMP_SYS(sched_getaffinity), SCMP_SYS(wait4), SCMP_SYS(waitid), SCMP_SYS(exit),
                SCMP_SYS(exit_group), SCMP_SYS(getpid), SCMP_SYS(getppid), SCMP_SYS(gettid), SCMP_SYS(getuid),
                SCMP_SYS(geteuid), SCMP_SYS(getpgrp)});
  filter.allow(SCMP_SYS(sched_setaffinity), 0, {0});
  filter.allow(SCMP_SYS(prlimit64), 0, {0});
  filter.allow(SCMP_SYS(prctl), 0, {PR_SET_NAME, PR_SET_TIMERSLACK});
  filter.allow(SCMP_SYS(socketpair), 0, {1});  // AF_UNIX
  filter.allow({SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(accept4), SCMP_SYS(getsockopt)});
  // Signals to itself, time, chance.
  filter.allow({SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
                SCMP_SYS(rt_sigpending), SCMP_SYS(sigaltstack), SCMP_SYS(nanosleep),
                SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
                SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(restart_syscall)});
  filter.allow(SCMP_SYS(kill), 0, {static_cast<uint64_t>(getpid())});
  filter.allow(SCMP_SYS(tgkill), 0, {static_cast<uint64_t>(getpid())});
  return filter.load();
}

}  // namespace

bool is_workers_user(uid_t id) {
  return id >= kUsers && id - kUsers <= kMostIds;
}

bool confine_worker() {
  leave_files();
  leave_bounds();
  leave_user();
  const bool has_left = leave_capabilities();
  prctl(PR_SET_DUMPABLE, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_AS, kMostMemory);
  return has_left && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter_calls();
}

}  // namespace mdl::kernel
