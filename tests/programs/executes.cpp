// Executes a command, in one of the ways in which programs do that:
//
//   executes WAY COMMAND ARGUMENTS...
//
//   threads     four threads execute it at once: one of them does
//   spawn       posix_spawn, and waits
//   vfork       vfork and execve, and waits
//   search      execve of files that are not there, before
//   descriptor  fexecve
//   held        inside `t_hold`, which was entered three times
//   handler     behind many in vain, which a signal handler interrupts that executes something in vain, too
//   prctl, seccomp   in a child that has put itself under a filter before: it ends whoever makes another call
//               than dd does
// It says nothing itself, and ends with 1 when the command cannot be executed, or as that ends.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

extern char** environ;

extern "C" [[gnu::noinline]] int t_hold(int depth, void (*then)()) {
  static int (*volatile again)(int, void (*)()) = t_hold;  // or the recursion would become a loop
  if (depth > 0) return again(depth - 1, then) + 1;
  then();
  return 0;
}

namespace {

char** command;

int end_of(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void execute() {
  execve(command[0], command, environ);
  _exit(1);
}

void execute_nothing(int = 0) {
  char name[] = "/nowhere/at/all";
  char* nothing[] = {name, nullptr};
  execve(name, nothing, environ);
}

void confine(bool by_prctl) {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_nanosleep, 3, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 2, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 1, 0),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  sock_fprog program = {std::size(filter), filter};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const long failed = by_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                               : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
  if (failed) _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 1;
  command = argv + 2;
  const auto is = [&](const char* way) { return strcmp(argv[1], way) == 0; };
  if (is("threads")) {
    std::atomic<bool> go = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
      threads.emplace_back([&] {
        while (!go) continue;
        execve(command[0], command, environ);
      });
    go = true;
    for (std::thread& thread : threads) thread.join();
    return 1;
  }
  if (is("spawn")) {
    pid_t child = 0;
    return posix_spawn(&child, command[0], nullptr, nullptr, command, environ) == 0 ? end_of(child) : 1;
  }
  if (is("vfork")) {
    const pid_t child = vfork();
    if (child == 0) {
      execve(command[0], command, environ);
      _exit(1);
    }
    return end_of(child);
  }
  if (is("search")) {
    for (int i = 0; i < 20; i++) execute_nothing();
    execute();
  }
  if (is("handler")) {
    signal(SIGALRM, execute_nothing);
    itimerval often = {{0, 7000}, {0, 7000}}, never = {};
    setitimer(ITIMER_REAL, &often, nullptr);
    for (int i = 0; i < 100; i++) execute_nothing();
    setitimer(ITIMER_REAL, &never, nullptr);
    execute();
  }
  if (is("prctl") || is("seccomp")) {
    const pid_t child = fork();
    if (child != 0) return end_of(child);
    confine(is("prctl"));
    execute();
  }
  if (is("descriptor")) fexecve(open(command[0], O_RDONLY | O_CLOEXEC), command, environ);
  if (is("held")) t_hold(2, execute);
  return 1;
}
