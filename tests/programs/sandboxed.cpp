// A program under seccomp, or a program that is started under it.
//
//   sandboxed redis-unit COMMAND ARGS...      under what Debian 12's redis-server.service sets
//   sandboxed deny CALL[,CALL...] COMMAND...  these system calls kill the process
//   sandboxed fail CALL[,CALL...] COMMAND...  they fail with EPERM
//   sandboxed address CALL COMMAND...         it fails at one address: the filter looks at it
//
// Or this program itself, which answers as children.cpp does to `work N`, N below 100:
//
//   sandboxed strict       in SECCOMP_MODE_STRICT
//   sandboxed half CALL    the first thread dies at CALL, another may make it
//   sandboxed self CALL    it dies at CALL, which it does not make itself
//   sandboxed late CALLS   it dies at these calls once it is told to `confine`
//   sandboxed raw CALLS    the same, by a system call of its own behind prctl(PR_SET_NO_NEW_PRIVS), as Chromium's
//   sandboxed dispatched CALLS  once it is told to `confine`, all system calls of its first thread but those that the C library
//                          makes come back to it as SIGSYS, and end it; another thread makes what it likes
//   sandboxed private      not dumpable
//   sandboxed plain        as it is: with the set-user-id bit, for one
//   sandboxed tracer PID   traces a process until it is killed
//
// The unit's settings, each of which systemd makes a filter of its own (systemd.exec(5)); what is not
// seccomp (namespaces of files, capabilities) is not here. The groups of system calls are those of systemd
// 252 (systemd-analyze syscall-filter), as far as this machine has them.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dispatch.h"
#include "protocol.h"

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "sandboxed: %s\n", what);
  std::exit(99);
}

class Rules {
 public:
  explicit Rules(uint32_t otherwise) : context_(seccomp_init(otherwise)) {
    if (!context_) fail("no memory");
    seccomp_attr_set(context_, SCMP_FLTATR_CTL_NNP, 1);
  }
  ~Rules() { seccomp_release(context_); }
  // Names that this machine does not have are left out, as systemd does.
  void add(uint32_t action, const char* name, std::vector<scmp_arg_cmp> arguments = {}) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR || number < 0) return;
    const int done = seccomp_rule_add_array(context_, action, number, static_cast<unsigned>(arguments.size()),
                                            arguments.data());
    if (done < 0 && done != -EEXIST && done != -EACCES) fail(name);
  }
  void add_all(uint32_t action, const std::string& names) {
    for (size_t at = 0, end; at < names.size(); at = end + 1) {
      end = names.find_first_of(" \n,", at);
      if (end == std::string::npos) end = names.size();
      if (end > at) add(action, names.substr(at, end - at).c_str());
    }
  }
  void load() {
    if (seccomp_load(context_) < 0) fail("the filter is not accepted");
  }
  std::vector<sock_filter> code() const {
    constexpr size_t kMost = 4096;
    std::vector<sock_filter> out(kMost);
    const int file = memfd_create("filter", 0);
    if (file < 0 || seccomp_export_bpf(context_, file) != 0) fail("no filter");
    const ssize_t size = pread(file, out.data(), kMost * sizeof out[0], 0);
    close(file);
    if (size <= 0) fail("no filter");
    out.resize(static_cast<size_t>(size) / sizeof out[0]);
    return out;
  }

 private:
  scmp_filter_ctx context_;
};

// @system-service without @privileged and @resources, as the unit's two SystemCallFilter lines leave it.
constexpr const char* kSystemService =
    "accept accept4 access add_key alarm arch_prctl bind brk capget chdir chmod clock_getres "
    "clock_gettime clock_nanosleep clone clone3 close close_range connect copy_file_range creat dup dup2 "
    "dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait "
    "epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 "
    "fallocate fchdir fchmod fchmodat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr "
    "fsetxattr fstat fstatfs fsync ftruncate futex futex_waitv futimesat get_mempolicy get_robust_list "
    "get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer "
    "getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit "
    "getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch "
    "inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup "
    "io_submit io_uring_enter io_uring_register io_uring_setup ioctl ioprio_get kcmp keyctl kill "
    "lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise "
    "membarrier memfd_create mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mprotect "
    "mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap msgctl msgget msgrcv "
    "msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep newfstatat open openat openat2 "
    "pause personality pidfd_open pidfd_send_signal pipe pipe2 poll ppoll prctl pread64 preadv preadv2 "
    "prlimit64 process_madvise process_vm_readv process_vm_writev pselect6 pwrite64 pwritev pwritev2 read "
    "readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr rename "
    "renameat renameat2 request_key restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask "
    "rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max "
    "sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
    "sched_rr_get_interval sched_yield select semctl semget semop semtimedop sendfile sendmmsg sendmsg "
    "sendto set_robust_list set_thread_area set_tid_address setfsgid setgid setitimer setns setpgid "
    "setregid setresgid setsid setsockopt setxattr shmat shmctl shmdt shmget shutdown sigaltstack "
    "signalfd signalfd4 socket socketpair splice stat statfs statx symlink symlinkat sync sync_file_range "
    "syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime "
    "timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink "
    "unlinkat unshare userfaultfd utime utimensat utimes vfork vmsplice wait4 waitid write writev";

// A rule on bits of an argument.
scmp_arg_cmp has(unsigned argument, uint64_t bits) {
  return {argument, SCMP_CMP_MASKED_EQ, bits, bits};
}

void apply_redis_unit() {
  constexpr uint32_t kPermission = SCMP_ACT_ERRNO(EPERM);
  {  // RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
    Rules rules(SCMP_ACT_ALLOW);
    for (unsigned family = 0; family <= 46; family++)
      if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        rules.add(SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", {{0, SCMP_CMP_EQ, family, 0}});
    rules.load();
  }
  {  // MemoryDenyWriteExecute
    Rules rules(SCMP_ACT_ALLOW);
    rules.add(kPermission, "mmap", {has(2, PROT_EXEC | PROT_WRITE)});
    rules.add(kPermission, "mprotect", {has(2, PROT_EXEC)});
    rules.add(kPermission, "pkey_mprotect", {has(2, PROT_EXEC)});
    rules.add(kPermission, "shmat", {has(2, 0100000)});  // SHM_EXEC
    rules.load();
  }
  {  // RestrictRealtime
    Rules rules(SCMP_ACT_ALLOW);
    for (uint64_t policy : {SCHED_FIFO, SCHED_RR, 6 /* SCHED_DEADLINE */})
      rules.add(kPermission, "sched_setscheduler", {{1, SCMP_CMP_EQ, policy, 0}});
    rules.load();
  }
  {  // RestrictSUIDSGID
    Rules rules(SCMP_ACT_ALLOW);
    for (uint64_t bit : {04000, 02000}) {
      for (const char* name : {"chmod", "fchmod"}) rules.add(kPermission, name, {has(1, bit)});
      rules.add(kPermission, "fchmodat", {has(2, bit)});
      rules.add(kPermission, "mkdir", {has(1, bit)});
      rules.add(kPermission, "mkdirat", {has(2, bit)});
      rules.add(kPermission, "mknod", {has(1, bit)});
      rules.add(kPermission, "mknodat", {has(2, bit)});
      rules.add(kPermission, "open", {has(1, O_CREAT), has(2, bit)});
      rules.add(kPermission, "openat", {has(2, O_CREAT), has(3, bit)});
    }
    rules.load();
  }
  {  // RestrictNamespaces
    Rules rules(SCMP_ACT_ALLOW);
    for (uint64_t flag : {CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET})
      for (const char* name : {"unshare", "clone"}) rules.add(kPermission, name, {has(0, flag)});
    rules.add(SCMP_ACT_ERRNO(ENOSYS), "clone3");
    rules.add(kPermission, "setns");
    rules.load();
  }
  {  // ProtectKernelModules, ProtectKernelLogs, ProtectClock, ProtectHostname, LockPersonality
    Rules rules(SCMP_ACT_ALLOW);
    rules.add_all(kPermission,
                  "delete_module finit_module init_module syslog sethostname setdomainname "
                  "adjtimex clock_adjtime clock_settime settimeofday");
    rules.add(kPermission, "personality", {{0, SCMP_CMP_NE, 0, 0}});
    rules.load();
  }
  {  // SystemCallArchitectures=native
    Rules rules(SCMP_ACT_ALLOW);
    rules.load();
  }
  {  // SystemCallFilter; its default is to kill
    Rules rules(SCMP_ACT_KILL_PROCESS);
    rules.add_all(SCMP_ACT_ALLOW, kSystemService);
    rules.add(SCMP_ACT_ALLOW, "execve");
    rules.load();
  }
}

void apply(uint32_t action, const char* names) {
  Rules rules(SCMP_ACT_ALLOW);
  rules.add_all(action, names);
  rules.load();
}

// By a system call of its own.
void apply(std::vector<sock_filter> code) {
  sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("privileges may be gained");
  long done = SYS_seccomp;
  asm volatile("syscall"
               : "+a"(done)
               : "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(&program)
               : "rcx", "r11", "memory");
  if (done != 0) fail("the filter is not accepted");
}

// A filter whose answer depends on an address.
void apply_by_address(const char* name) {
  Rules rules(SCMP_ACT_ALLOW);
  rules.add(SCMP_ACT_ERRNO(EPERM), name, {{0, SCMP_CMP_EQ, 0x7fff'0000'0000, 0}});
  rules.load();
}

uint64_t work;

}  // namespace

extern "C" __attribute__((noinline, used)) uint64_t t_work(uint64_t x) {
  work++;
  asm volatile("" : "+r"(x));
  return x * 3;
}

namespace {

// With read, write and exit alone, as strict mode wants it. `confine`: what it does once it is told so; then another
// thread may be there at the end.
[[noreturn]] void serve(const std::function<void()>& confine = {}) {
  for (;;) {
    char line[64];
    const ssize_t got = read(STDIN_FILENO, line, sizeof line);
    if (confine && got >= 7 && memcmp(line, "confine", 7) == 0) {
      confine();
      protocol::say_event("done");
      continue;
    }
    if (got < 6 || memcmp(line, "work ", 5) != 0) syscall(confine ? SYS_exit_group : SYS_exit, 0);
    unsigned times = 0;
    for (const char* at = line + 5; *at >= '0' && *at <= '9'; at++)
      times = times * 10 + static_cast<unsigned>(*at - '0');
    for (unsigned i = 0; i < times; i++) t_work(i);
    char answer[] = "{\"event\":\"done\",\"work\":000}\n";
    char* digits = answer + sizeof answer - 6;
    // A number of three digits, padded by blanks as JSON allows.
    const char text[3] = {work >= 100 ? static_cast<char>('0' + work / 100 % 10) : ' ',
                          work >= 10 ? static_cast<char>('0' + work / 10 % 10) : ' ',
                          static_cast<char>('0' + work % 10)};
    memcpy(digits, text, sizeof text);
    if (write(STDOUT_FILENO, answer, sizeof answer - 1) < 0) syscall(SYS_exit, 1);
  }
}

void* idle(void*) {
  for (;;) sleep(1);
}

[[noreturn]] void strict() {
  protocol::say_event("ready");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) fail("no strict mode");
  serve();
}

void start_idle_thread() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, idle, nullptr) != 0) fail("no thread");
}

[[noreturn]] void half(const char* name) {
  start_idle_thread();
  apply(SCMP_ACT_KILL_PROCESS, name);  // of this thread only
  protocol::say_event("ready");
  serve();
}

[[noreturn]] void tracer(const char* pid) {
  if (ptrace(PTRACE_SEIZE, atoi(pid), nullptr, nullptr) != 0) fail("cannot trace");
  protocol::say_event("ready");
  for (;;) sleep(1);
}

}  // namespace

int main(int argc, char** argv) {
  alarm(120);
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "strict") strict();
  if (what == "half" && argc == 3) half(argv[2]);
  if (what == "self" && argc == 3) {
    apply(SCMP_ACT_KILL_PROCESS, argv[2]);
    protocol::say_event("ready");
    serve();
  }
  if (what == "late" && argc == 3) {
    protocol::say_event("ready");
    serve([argv] { apply(SCMP_ACT_KILL_PROCESS, argv[2]); });
  }
  if (what == "dispatched" && argc == 3) {
    start_idle_thread();
    protocol::say_event("ready");
    serve(dispatch_calls);
  }
  if (what == "raw" && argc == 3) {
    Rules rules(SCMP_ACT_ALLOW);
    rules.add_all(SCMP_ACT_KILL_PROCESS, argv[2]);
    protocol::say_event("ready");
    serve([code = rules.code()] { apply(code); });
  }
  if (what == "tracer" && argc == 3) tracer(argv[2]);
  if (what == "private" || what == "plain") {
    if (what == "private" && prctl(PR_SET_DUMPABLE, 0) != 0) fail("it stays dumpable");
    protocol::say_event("ready");
    serve();
  }
  int command = 2;
  if (what == "redis-unit") {
    apply_redis_unit();
  } else if (argc > 3) {
    command = 3;
    if (what == "deny") apply(SCMP_ACT_KILL_PROCESS, argv[2]);
    if (what == "fail") apply(SCMP_ACT_ERRNO(EPERM), argv[2]);
    if (what == "address") apply_by_address(argv[2]);
  }
  if (argc <= command) fail("no command");
  execvp(argv[command], argv + command);
  fail("cannot execute the command");
}
