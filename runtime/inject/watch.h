// Waiting for what can happen during a measurement: the next sample is due, the user
// interrupts, the target ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "base/result.h"

namespace mdl::inject {

class Watch {
 public:
  // From here on SIGINT, SIGTERM and SIGHUP are not delivered but waited for.
  static Result<Watch> open(pid_t pid);
  ~Watch();
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&&) = delete;

  enum class Event { due, interrupted, ended };
  Event wait_until(std::chrono::steady_clock::time_point when) const;

  // After Event::ended: the signal that killed the target, 0 for a normal exit, nothing when the
  // kernel does not tell (Linux before 6.15, and the parent has already waited for it).
  std::optional<int> killed_by() const;

 private:
  Watch(pid_t pid, int process, int signals) : pid_(pid), process_(process), signals_(signals) {}
  pid_t pid_;
  int process_;
  int signals_;
};

}  // namespace mdl::inject
