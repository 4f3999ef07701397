// A session: the processes that are measured, the requests, and a clock (architecture, decision 11).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/output/series.h"
#include "runtime/process/launch.h"
#include "runtime/session/attached_process.h"
#include "runtime/session/follow.h"
#include "runtime/session/options.h"
#include "runtime/session/watch.h"

namespace mdl::inject {

class Session {
 public:
  // `first` has been instrumented; all else outlives it.
  Session(const SessionOptions& options, const Watch& watch, output::Feed& feed,
          std::unique_ptr<AttachedProcess> first);

  // Samples until something ends it, then takes everything out, whatever happens here.
  // A program that was started for it is let go when everything is ready for its end. Returns the exit
  // status.
  Result<int> run(std::optional<process::Launch>& launched);

 private:
  using Clock = std::chrono::steady_clock;

  Result<void> sample_until_end(std::optional<process::Launch>& launched);
  Result<void> sample();
  // Children that were forked; true when there are some.
  bool look_for_children(bool thoroughly);
  void end_the_ended();
  void take_out();
  void abandon(const Error& why);
  Result<int> result() const;
  std::vector<const Measurement*> measured() const;

  const SessionOptions& options_;
  const Watch& watch_;
  output::Feed& feed_;
  Clock::time_point started_;
  std::vector<std::unique_ptr<AttachedProcess>> processes_;  // the others are the first one's family
  std::optional<Follow> follow_;
  Clock::time_point looked_;
};

}  // namespace mdl::inject
