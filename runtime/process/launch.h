// Starting a program so that it is instrumented before its first own instruction: it is held at its entry
// (arrival.h). A static program cannot be.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/process/target_memory.h"

namespace mdl::process {

class Launch {
 public:
  // The program is found on PATH, and gets our standard files and environment, and begins in `folder`,
  // "" for ours. An error when it cannot be
  // executed, with the reason; nothing is left behind then.
  static Result<Launch> start(const std::vector<std::string>& command, const std::string& folder);
  ~Launch();  // ends the program if it was never let go; so does the end of this process (kernel/start.h)
  Launch(Launch&& other) noexcept;
  Launch& operator=(Launch&&) = delete;

  pid_t pid() const { return pid_; }
  // By which it is held; to be asked for once.
  TargetMemory take_memory();
  // From here on its end is its own. It runs once its memory lets it (TargetMemory::let_run).
  void let_go();

 private:
  explicit Launch(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  bool waits_ = true;
  std::optional<TargetMemory> memory_;
};

}  // namespace mdl::process
