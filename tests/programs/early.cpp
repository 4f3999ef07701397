// A library that does something in the program `churn` before that begins, by the word in the environment's
// EARLY:
//
//   trap    raises SIGTRAP, and handles it
//   exec    executes /bin/true
//   fork    forks a child that runs the program itself, and waits for that
//   wait    waits for a child that it has forked, and that is not the program
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

__attribute__((constructor)) static void begin() {
  const char* early = getenv("EARLY");
  if (!early || strcmp(program_invocation_short_name, "churn") != 0) return;
  if (strcmp(early, "exec") == 0) execl("/bin/true", "true", nullptr);
  if (strcmp(early, "fork") == 0 || strcmp(early, "wait") == 0) {
    const pid_t child = fork();
    if (child == 0 && strcmp(early, "fork") == 0) return;
    if (child == 0) _exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    // The child of "fork" ends as the program does with an empty input.
    if (!WIFEXITED(status) || WEXITSTATUS(status) != (strcmp(early, "fork") == 0 ? 0 : 7)) abort();
    return;
  }
  std::signal(SIGTRAP, [](int) {});
  raise(SIGTRAP);
}
