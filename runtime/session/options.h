// The options of a session.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/process/paused_memory.h"
#include "runtime/resident/key_table.h"

namespace mdl::inject {

// Metrics of the plan that the table's keys ask for, by their ids; nothing else does.
struct DrillMetrics {
  std::vector<std::string> of_callees;   // at each function that a function calls,
  std::vector<std::string> of_function;  // and at that one: how long its calls take
  std::vector<std::string> by_caller;    // at it, by caller
  std::vector<std::string> all() const {
    std::vector<std::string> out = of_callees;
    for (const auto& more : {of_function, by_caller}) out.insert(out.end(), more.begin(), more.end());
    return out;
  }
};

struct SessionOptions {
  pid_t pid = 0;
  std::vector<pid_t> others = {};  // that were named with it
  std::vector<pid_t> pids() const {
    std::vector<pid_t> out = others;
    out.insert(out.begin(), pid);
    return out;
  }
  bool has_name(pid_t one) const { return std::ranges::count(pids(), one) != 0; }
  bool several = false;  // all processes together have lines, too (output/sums.h)
  bool start = false;    // the process is started for it
  std::vector<std::string> metrics;
  std::vector<std::string> foci;
  // Metrics that are measured besides, by the names that they have.
  std::vector<std::string> queries = {};
  std::string flavor;
  double interval = 1;             // seconds between samples
  std::optional<double> duration;  // seconds; none = until interrupted or the end of the target
  bool dry_run = false;
  bool explain = false;
  bool verbose = false;
  bool timing = false;  // say where the time went (base/phases.h)
  bool strict = false;
  bool detach = false;
  bool check = false;
  bool follow_fork = false;
  bool follow = false;  // processes that come later, too
  bool allow_calls = false;
  bool allow_reads = false;  // of memory, at addresses that code computes
  bool raw_times = false;
  bool await = false;
  std::string commands;  // file from which changes of the requests are read (commands.h); "" = none
  bool drills = false;   // the table's keys ask for others, too:
  DrillMetrics drill = {};
  bool shares = false;      // other mdl-inject may ask for others (guests.h), where that takes little,
  bool makes_room = false;  // or in any case, and for distributions, too
  bool changes() const { return drills || shares || !commands.empty(); }
  // --run --follow-fork: programs that processes execute are measured, too.
  bool follows_programs() const { return start && follow_fork; }
  // A thing that is asked for may come with a library or a program that is not there yet.
  bool may_come_later() const { return await || follows_programs(); }
  std::optional<std::vector<uid_t>> users = {};  // whose processes may be measured; none = all
  std::optional<double> budget;  // nanoseconds that the code of a point may take; none = a warning (budget.h)
  std::chrono::milliseconds max_pause = process::kMaxPause;
  uint64_t max_keys = resident::kAsUsual;
};

}  // namespace mdl::inject
