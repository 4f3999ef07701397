// A program that is run for what it prints.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mdl {

// Whether the program keeps the rights of who starts it.
enum class ProgramRights {
  own,
  // It cannot gain any, and root's capabilities are taken from it: it reads and writes what root owns, and no more.
  less,
  // Root's program runs as nobody, besides; where it can be executed as such.
  none,
};

struct ProgramOutput {
  int status = 0;     // its exit status; 128 and the signal's number when a signal has ended it
  std::string bytes;  // of its standard output
};

// `words`: a path, and the arguments. Its standard error is this process's, its standard input is empty.
Result<ProgramOutput> run_program(const std::vector<std::string>& words, ProgramRights rights);

// The same in two steps, with something else in between. It ends with the thread that has started it.
class RunningProgram {
 public:
  static Result<RunningProgram> start(const std::vector<std::string>& words, ProgramRights rights);
  RunningProgram(RunningProgram&& other) noexcept;
  RunningProgram& operator=(RunningProgram&&) = delete;
  ~RunningProgram();  // it may run on, and nobody reads what it prints
  // Waits for its end. Once.
  Result<ProgramOutput> finish();

 private:
  RunningProgram(std::string name, pid_t pid, int output)
      : name_(std::move(name)), pid_(pid), output_(output) {}

  std::string name_;
  pid_t pid_;
  int output_;  // the end of a pipe that is read
};

}  // namespace mdl
