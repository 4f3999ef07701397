// Children that run in this process's memory, as its thread, until they execute a program or end.
//
//   launches SECONDS HOW    HOW: vfork    l_child executes /bin/true
//                                absent   it tries some that are not there, and ends
//                                nested   likewise, within a child that waits for it
//                                spawn    posix_spawn
//                                search   posix_spawnp, by a path with folders where it is not
//                                shell    system()
//
// Commands: `go N` N times: a child, then l_step twice (protocol.h). Every other child is another thread's.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "protocol.h"

namespace {

char name[] = "true";
char* const arguments[] = {name, nullptr};

pid_t (*launch)();

}  // namespace

extern "C" {
#define WORK [[gnu::noinline, gnu::used]]
WORK int l_step(int value) {
  asm volatile("");
  return value + 1;
}
WORK void l_child(bool is_there) {
  l_step(0);
  if (is_there) execve("/bin/true", arguments, environ);
  for (const char* path : {"/nowhere/true", "/bin/nothing", "/bin"}) execve(path, arguments, environ);
  asm volatile("");
}
WORK pid_t l_vfork(bool is_there) {
  const pid_t pid = vfork();
  if (pid == 0) {
    l_child(is_there);
    _exit(127);
  }
  return pid;
}
WORK void l_outer() {
  waitpid(l_vfork(true), nullptr, 0);
  _exit(0);
}
WORK pid_t l_nested() {
  const pid_t pid = vfork();
  if (pid == 0) l_outer();
  return pid;
}
WORK pid_t l_spawn() {
  pid_t pid = -1;
  return posix_spawn(&pid, "/bin/true", nullptr, nullptr, arguments, environ) == 0 ? pid : -1;
}
WORK pid_t l_search() {
  pid_t pid = -1;
  return posix_spawnp(&pid, name, nullptr, nullptr, arguments, environ) == 0 ? pid : -1;
}
WORK void l_round() {
  if (const pid_t pid = launch(); pid > 0) waitpid(pid, nullptr, 0);
  l_step(1);
}
}

int main(int argc, char** argv) {
  const std::string how = argc > 2 ? argv[2] : "vfork";
  setenv("PATH", "/nowhere:/proc:/usr/bin:/bin", 1);
  launch = how == "absent"   ? [] { return l_vfork(false); }
           : how == "nested" ? l_nested
           : how == "spawn"  ? l_spawn
           : how == "search" ? l_search
           : how == "shell"  ? [] { return system("/bin/true"); }
                             : [] { return l_vfork(true); };
  const auto round = [](unsigned long i) {
    if (i % 2 == 0)
      l_round();
    else
      std::thread(l_round).join();
    l_step(2);
  };
  return protocol::go(argc, argv, round, [] { return std::string(); });
}
