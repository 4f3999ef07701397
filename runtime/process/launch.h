// Starting a program so that it is instrumented before its first own instruction: it is stopped where its
// loader hands over to it. Its libraries are there and have run their constructors; its own have not run, nor
// main. A static program has no loader, and no thread pointer at that place: it cannot be instrumented there.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/process/guard.h"

namespace mdl::process {

class Launch {
 public:
  // The program is found on PATH, and gets our standard files and environment. An error when it cannot be
  // executed, with the reason; nothing is left behind then.
  static Result<Launch> start(const std::vector<std::string>& command);
  ~Launch();  // ends the program if it was never let go; so does the end of this process (guard.h)
  Launch(Launch&& other) noexcept;
  Launch& operator=(Launch&&) = delete;

  pid_t pid() const { return pid_; }
  // Lets it run.
  void go();

 private:
  Launch(pid_t pid, int handle, Guard guard) : pid_(pid), handle_(handle), guard_(std::move(guard)) {}
  void send(int signal) const;
  pid_t pid_;
  int handle_;  // a pidfd (pidfd_open(2)): what is sent through it reaches this program or nobody
  Guard guard_;
  bool waits_ = true;
};

}  // namespace mdl::process
