#include "runtime/process/paused_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nap.h"

namespace mdl::process {

using namespace std::chrono_literals;

void PausedMemory::begin(pid_t thread) {
  const auto now = Clock::now();
  if (thread_ != 0 && now - begun_ > longest_) longest_ = now - begun_, slowest_ = thread_;
  thread_ = thread;
  begun_ = now;
}

std::string PausedMemory::slowest() {
  begin(0);
  if (slowest_ == 0) return "";
  return fmt::format("thread {}, {:.1f} ms", slowest_,
                     std::chrono::duration<double, std::milli>(longest_).count());
}

void rest_after(std::chrono::nanoseconds pause) {
  const std::chrono::nanoseconds rest = std::clamp<std::chrono::nanoseconds>(pause, 2ms, 900ms);
  nap(std::chrono::duration_cast<std::chrono::microseconds>(rest).count());
}

}  // namespace mdl::process
