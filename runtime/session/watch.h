// Waiting for what can happen during a measurement: the next sample is due, the user
// interrupts, a process ends.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace mdl::inject {

// A process, whose pid may be another one's when it has ended.
class ProcessHandle {
 public:
  static Result<ProcessHandle> open(pid_t pid);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&&) = delete;

  pid_t pid() const { return pid_; }
  int file() const { return file_; }  // readable when it has ended
  bool ends_within(std::chrono::milliseconds time) const;

  // When it has ended: the signal that killed it, 0 for a normal exit, nothing when the
  // kernel does not tell (Linux before 6.15, and the parent has already waited for it).
  std::optional<int> killed_by() const;

 private:
  ProcessHandle(pid_t pid, int file) : pid_(pid), file_(file) {}
  pid_t pid_;
  int file_;
};

// The signals that end a measurement: SIGINT, SIGTERM, and SIGHUP where nohup(1) has not made it ignored.
std::vector<int> ending_signals();

class Watch {
 public:
  // From here on the ending signals are not delivered but waited for.
  static Watch open();
  ~Watch();
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&&) = delete;

  // `ended`: some process has.
  enum class Event { due, interrupted, ended };
  // Of the processes in `files`.
  Event wait_until(std::chrono::steady_clock::time_point when, std::vector<pollfd>& files) const;
  std::vector<pollfd> files(std::span<const ProcessHandle* const> processes) const;

 private:
  explicit Watch(int signals) : signals_(signals) {}
  int signals_;
};

}  // namespace mdl::inject
