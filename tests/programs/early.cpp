// A library that does something in the program `churn` before that begins, by the word in the environment's EARLY:
//
//   trap    raises SIGTRAP, and handles it
//   exec    executes /bin/true
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

__attribute__((constructor)) static void begin() {
  const char* early = getenv("EARLY");
  if (!early || strcmp(program_invocation_short_name, "churn") != 0) return;
  if (strcmp(early, "exec") == 0) execl("/bin/true", "true", nullptr);
  std::signal(SIGTRAP, [](int) {});
  raise(SIGTRAP);
}
