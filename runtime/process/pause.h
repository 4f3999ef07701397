// What is to hold while threads of a process stand: the process waits for us then.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>

namespace mdl::process {

// For how long threads stood, in several stops.
struct Pauses {
  std::chrono::nanoseconds all{}, longest{};
  void add(std::chrono::nanoseconds pause) { all += pause, longest = std::max(longest, pause); }
};

// From the first thread that is seized to the last that is let go. Ctrl-C and its kind are held back, since they would
// end us between a thread's stop and its mending. And a process that waits for us must not wait for others: on a busy
// machine we go first then, if we may.
class Pause {
 public:
  Pause() = default;
  ~Pause() { end(); }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  void begin();  // nothing while it lasts already
  void end();    // the same, where there is none

 private:
  bool lasts_ = false;
  bool hurried_ = false;
  sigset_t mask_{};  // before signals were held back
};

}  // namespace mdl::process
