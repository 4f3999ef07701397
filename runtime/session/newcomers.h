// --follow: processes that come while a session goes on. They are looked for some times a second, and attached to one by
// one. One that has just begun has not loaded its libraries yet, or is the copy of a shell that is about to execute a
// program: so it is refused for good only when it still cannot be measured after a second.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/session/attached_process.h"

namespace mdl::inject {

class Newcomers {
 public:
  using Clock = std::chrono::steady_clock;
  struct Source {
    // Those that have come since the last call; `refused`: which others, and why, a line for each.
    std::function<std::vector<pid_t>(std::string& refused)> look;
    // A transaction: an error has left the process as it was, or says how it is.
    std::function<Result<std::unique_ptr<AttachedProcess>>(pid_t pid, double began_s)> attach;
    // Others come from those only that are there, or were handed out: by id, and the time of the start.
    bool ends_with_the_last = false;
    std::vector<std::pair<pid_t, uint64_t>> there = {};
  };
  explicit Newcomers(Source source) : source_(std::move(source)) {}

  Clock::time_point next_look() const { return next_look_; }
  // Those to which it is to be attached now. Each comes again until it is attached, refused, gone or dropped.
  std::vector<pid_t> look();
  // Null where it did not work; why is said once.
  std::unique_ptr<AttachedProcess> attach(pid_t pid, double began_s);
  void drop(pid_t pid);
  // Why the last one could not be measured of those that ended within the time in which they are tried again: nothing was
  // said of it. "" where there was none.
  const std::string& last_missed() const { return last_missed_; }
  // Nobody is looked for any more.
  void end() { next_look_ = Clock::time_point::max(); }
  // False when nobody can come any more.
  bool may_come() const { return !source_.ends_with_the_last || !source_.there.empty() || !waiting_.empty(); }

 private:
  struct Waiting {
    pid_t pid = 0;
    uint64_t start = 0;
    Clock::time_point since, next;
    std::string why = {};  // it could not be measured when that was tried last
  };
  Source source_;
  Clock::time_point next_look_;
  std::vector<Waiting> waiting_;
  std::string last_missed_;
};

}  // namespace mdl::inject
