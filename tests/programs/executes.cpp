// Executes a command, in one of the ways in which programs do that:
//
//   executes threads|spawn|vfork|search|descriptor|held COMMAND ARGUMENTS...
//
//   threads     four threads execute it at once: one of them does
//   spawn       posix_spawn, and waits
//   vfork       vfork and execve, and waits
//   search      execve of files that are not there, before
//   descriptor  fexecve
//   held        a thread is inside `t_hold` meanwhile, which main has entered twice
// It says nothing itself, and ends with 1 when the command cannot be executed, or as that ends.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
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
    for (int i = 0; i < 20; i++) execve("/nowhere/at/all", command, environ);
    execute();
  }
  if (is("descriptor")) fexecve(open(command[0], O_RDONLY | O_CLOEXEC), command, environ);
  if (is("held")) t_hold(2, execute);
  return 1;
}
