// Ends a program that was started and not let go yet when the process that started it ends first, however it
// ends: nobody else would wake a program that is stopped at its entry.
//
// A small process of its own waits for that. It knows of the program before the program executes anything.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace mdl::process {

class Guard {
 public:
  static Result<Guard> start();
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&&) = delete;
  ~Guard();  // ends the program

  // Called by the program's process itself, before it executes the program. Returns when the guard knows it.
  void guard_this();
  // The program is let go: its end is its own.
  void release();

 private:
  Guard(pid_t pid, int connection) : pid_(pid), connection_(connection) {}
  pid_t pid_;
  int connection_;  // closed at an execve
};

}  // namespace mdl::process
