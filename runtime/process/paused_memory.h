// The memory of a process whose threads stand, for as long as they may.
//
// A target can make a stop long: with many threads, deep stacks, and frames that no table describes. All that
// looks at stacks reads them through this, and reads nothing any more when the time is over: the walk or the
// scan ends there, unfinished, and its caller lets the threads go.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "runtime/image/memory.h"

namespace mdl::process {

// The time for which an insertion may stop the target at once, unless --max-pause says otherwise. Clocks run
// on while the injector itself gets no processor, so a stop that was too long is tried again a few times.
inline constexpr std::chrono::milliseconds kMaxPause{50};

class PausedMemory final : public image::Memory {
 public:
  using Clock = std::chrono::steady_clock;
  PausedMemory(const image::Memory& memory, Clock::time_point stopped_since, std::chrono::milliseconds limit)
      : memory_(memory), until_(stopped_since + limit) {}

  bool read(uint64_t address, std::span<std::byte> into) const override {
    return !is_over() && memory_.read(address, into);
  }
  // Stays true.
  bool is_over() const { return is_over_ = is_over_ || Clock::now() > until_; }
  // Who has waited for so long finds that it is over.
  std::chrono::milliseconds left() const {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until_ - Clock::now());
    return std::max(ms, std::chrono::milliseconds(0)) + std::chrono::milliseconds(1);
  }

  // From here on, the stack of this thread is looked at.
  void begin(pid_t thread);
  // The thread whose stack has taken longest, as text; "" when there was none.
  std::string slowest();

 private:
  const image::Memory& memory_;
  Clock::time_point until_;
  mutable bool is_over_ = false;
  pid_t thread_ = 0, slowest_ = 0;
  Clock::time_point begun_{};
  Clock::duration longest_{};
};

// Lets a target run for as long as it has just stood.
void rest_after(std::chrono::nanoseconds pause);

}  // namespace mdl::process
