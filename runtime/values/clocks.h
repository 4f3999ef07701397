// The clocks of timers, read from outside: what a timer that runs would see if it were stopped now.
//
// The wall clock is the machine's counter. A thread's own clocks are the kernel's accounts of it in /proc;
// they may be behind what the thread itself would be told by the time it has run since the last tick.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>

#include "base/result.h"
#include "format/kinds.h"

namespace mdl::values {

struct ClockOf {  // a kind's, with its event
  format::CellClock clock = format::CellClock::wall;
  format::Event event = format::Event::minor_faults;
  bool operator==(const ClockOf&) const = default;
};

// Ticks of the wall clock.
uint64_t nanoseconds(uint64_t ticks, uint64_t ticks_per_second);

// The clock of one thread, `tid` as we see it. Thread clocks are larger by 2^56, as in the target
// (format/kinds.h).
Result<uint64_t> clock_now(const ClockOf& clock, pid_t pid, pid_t tid);

// The clocks of a process's threads by the ids that the process itself knows them by.
class Clocks {
 public:
  virtual ~Clocks() = default;
  virtual uint64_t wall() = 0;
  // Nothing when the thread has ended.
  virtual std::optional<uint64_t> of_thread(const ClockOf& clock, uint64_t thread) = 0;
  virtual bool alive(uint64_t thread) = 0;
  virtual size_t count() = 0;  // of threads
};

class TargetClocks final : public Clocks {
 public:
  explicit TargetClocks(pid_t pid) : pid_(pid) {}
  uint64_t wall() override;  // begins a new look at the threads
  std::optional<uint64_t> of_thread(const ClockOf& clock, uint64_t thread) override;
  bool alive(uint64_t thread) override;
  size_t count() override { return threads().size(); }

 private:
  const std::map<uint64_t, pid_t>& threads();

  pid_t pid_;
  std::optional<std::map<uint64_t, pid_t>> threads_;  // by their own id; read when first asked for
};

}  // namespace mdl::values
