// A program that is run for what it prints.
#pragma once

#include <string>
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

}  // namespace mdl
