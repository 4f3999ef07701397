// How a test talks to a test program: commands are lines on standard input, answers are
// one JSON object a line on standard output. A program says {"event":"ready",...} when a
// test may attach; it then does exactly what the commands say, so that "nothing runs
// between these two numbers" is something a test can rely on.
//
// Only read(2), write(2) and stdio on one thread: no iostreams, so that the static
// flavors stay small.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace protocol {

struct Command {
  std::string word;  // "" at the end of the input
  unsigned long number = 0;
};

// The next command line; `word` is empty when the input is closed.
inline Command next_command() {
  std::string line;
  char c = 0;
  while (true) {
    ssize_t got = read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    if (c == '\n') break;
    line.push_back(c);
  }
  Command command;
  size_t space = line.find(' ');
  command.word = line.substr(0, space);
  if (space != std::string::npos) command.number = strtoul(line.c_str() + space, nullptr, 10);
  return command;
}

// Writes one answer, whole.
inline void say(const std::string& json) {
  std::string line = json + "\n";
  size_t done = 0;
  while (done < line.size()) {
    ssize_t wrote = write(STDOUT_FILENO, line.data() + done, line.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) _exit(99);
    done += static_cast<size_t>(wrote);
  }
}

// {"event":NAME,FIELDS} where FIELDS is JSON text without braces, or empty.
inline void say_event(const char* name, const std::string& fields = "") {
  say(std::string("{\"event\":\"") + name + "\"" + (fields.empty() ? "" : "," + fields) + "}");
}

// A program whose one command is `go N`: it says that it is ready, calls round(i) for each i below N, and answers with
// the fields that totals() gives. It ends with any other command, or after its first argument's seconds (120).
template <typename Round, typename Totals>
int go(int argc, char** argv, Round round, Totals totals) {
  alarm(argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 120);
  say_event("ready");
  for (Command command = next_command(); command.word == "go"; command = next_command()) {
    for (unsigned long i = 0; i < command.number; ++i) round(i);
    say_event("done", totals());
  }
  return 0;
}

inline std::string field(const char* name, unsigned long long value) {
  return std::string("\"") + name + "\":" + std::to_string(value);
}

}  // namespace protocol
