// One process that is measured, from the insertion, or from the fork that made it, to its end.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/arch/clock.h"
#include "runtime/output/series.h"
#include "runtime/patch/missed_exits.h"
#include "runtime/process/target_memory.h"
#include "runtime/session/dearest.h"
#include "runtime/session/ended_children.h"
#include "runtime/session/options.h"
#include "runtime/session/request_values.h"
#include "runtime/session/watch.h"
#include "runtime/values/clocks.h"
#include "runtime/values/sampler.h"

namespace mdl::patch {
class Removal;
}

namespace mdl::inject {

class Measurement {
 public:
  // `options` and `feed` outlive it. `began_s`: when, in seconds since the session began.
  Measurement(const SessionOptions& options, ProcessHandle process, resident::Journal journal,
              process::TargetMemory memory, output::Feed& feed, double began_s);

  pid_t pid() const { return process_.pid(); }
  const ProcessHandle& process() const { return process_; }
  resident::Journal& journal() { return journal_; }
  const resident::Journal& journal() const { return journal_; }
  const process::TargetMemory& memory() const { return memory_; }
  output::Feed& feed() const { return feed_; }

  // Nothing while it goes on; then how it went, as an exit status.
  const std::optional<Result<int>>& result() const { return result_; }

  // What lies at its addresses, for keys that are shown so.
  void name_addresses(std::shared_ptr<const image::AddressNames> names) {
    requests_.name_addresses(std::move(names));
  }
  const std::shared_ptr<const image::AddressNames>& addresses() const { return requests_.addresses(); }

  // Lets a process run that was held at its entry.
  void let_run() { memory_.let_run(); }
  // By the journal's requests: those that have no lines.
  void hide(std::vector<bool> hidden) { hidden_ = std::move(hidden); }
  const std::vector<bool>& hidden() const { return hidden_; }
  // Nothing of it is shown: what becomes of it need not be said.
  bool is_hidden() const;
  // Whether the program that it may execute next is measured, too, by another measurement.
  // Its values until then are its last ones.
  void expect_program(bool follows);
  // Appends the points of one sample, of the requests whose points this feed gets. When the data cannot be read any
  // more, it is over.
  void sample(std::vector<output::Point>& points, output::Feed& feed);
  void sample(std::vector<output::Point>& points) { sample(points, feed_); }
  // Other requests are measured from now on (patch/change.h). First, while no thread runs: the last values of
  // those that go.
  Result<void> read_last_before_change();
  struct Next {
    resident::Journal journal;
    std::vector<std::optional<uint32_t>> kept = {};  // by request, which one of the old journal it is
    std::vector<image::Range> cleared = {};          // as of patch::Continuation
    std::vector<output::Feed*> feeds = {};           // by request: that gets its points
  };
  // Then: appends the points of that moment, of requests that `sampled` has, where that is not null.
  void change(Next next, const output::Feed* sampled, std::vector<output::Point>& points);
  // When that was, in seconds since the session began.
  double changed_s() const { return changed_s_; }
  // Whether look() would find nothing to do.
  bool is_quiet() const;
  // Between samples: takes what ended threads have left, and the last values of a process at its end. True when
  // there was any of that.
  bool look();
  // The last alone; nothing is written. A process at its end does not wait for the reader of the output.
  bool read_end();
  // The process has ended.
  void end();
  // Takes everything out, with a last sample; or leaves it, as --detach wants.
  void take_out();
  // Takes everything out: there is no use in measuring any more, because of `why`.
  void abandon(const Error& why);

 private:
  using Clock = std::chrono::steady_clock;

  Result<values::Sample> take_sample();
  // Whether it may be measured still (users.h). False for good, once it may not.
  bool is_permitted();
  bool free_taken();  // true when something was taken
  bool write_data(uint64_t address, std::span<const uint64_t> words);
  bool set_word(uint64_t header, uint64_t value) {
    return write_data(journal_.data.start + header, std::span(&value, 1));
  }
  struct Ends {
    uint64_t exits = 0, threads = 0;  // how often it was at its exit, and how many threads have ended
  };
  std::optional<Ends> read_ends() const;
  bool read_end(uint64_t exits);
  bool ends_soon(std::chrono::milliseconds patience) const;
  // The time that hits took, as a part of the CPU time since the beginning; below 0 where that is not known.
  double overhead(const values::Sample& sample);
  // ", most of it by METRIC@FOCUS", or nothing where that is not known.
  std::string dearest_text() const;
  // Where flags are up when the process ends: whether exits were missed.
  void check_at_end();
  // Says what a check of exits has found, and remembers it for the lines.
  void take(const patch::ExitCheck& check);
  bool is_suspect(size_t request) const;
  // Where the machine's counter does not agree with the system's clock any more, times are not to be trusted.
  void compare_clocks();
  bool is_time(size_t request) const;
  void append(const values::Sample& sample, std::vector<output::Point>& points, const output::Feed& feed);
  // The feeds that get points of it.
  std::vector<output::Feed*> feeds() const;
  Result<void> write_last(const values::Sample& sample);
  void say_other_keys() const;
  void say_no_keys(const values::Sample& sample) const;
  // The last values of a process that says nothing any more: exact when it had said that it ends.
  values::Sample last_known();
  values::Sample repeated();
  Result<int> ended();
  Result<int> lost(const Error& why);
  // The program that the process executes now, in the place of the one that was instrumented.
  std::optional<std::string> other_program();
  Result<int> replaced(const std::string& program);
  Result<int> leave();
  Result<int> remove();
  Result<void> restore(patch::Removal& removal);
  Result<int> left(const Error& why);
  Error damaged(const Error& why) const;
  Error still_there(const Error& why) const;

  const SessionOptions& options_;
  ProcessHandle process_;
  resident::Journal journal_;
  process::TargetMemory memory_;
  output::Feed& feed_;
  double began_s_;
  std::string auxiliary_;  // /proc/PID/auxv: each program that a process executes has another one
  values::TargetClocks clocks_;
  values::Sampler sampler_;
  RequestValues requests_;
  std::map<const output::Feed*, values::Moment> last_at_;  // of the points that each got last
  double changed_s_ = 0;
  EndedChildren children_;
  uint64_t cpu_at_begin_;  // of the process, in nanoseconds
  double last_overhead_ = -1;
  int high_ = 0;         // in how many samples it was high
  bool warned_ = false;  // that has been said
  DearestRequest dearest_;
  std::set<uint32_t> suspect_;  // requests
  arch::ClockPair compared_;    // when they last agreed
  bool uneven_ = false;         // they do not any more
  bool removes_ = false;        // our removal, or change, holds the lock, and lets us write
  std::optional<values::Sample> before_change_;
  uint64_t exits_ = 0;                          // how often it was at its exit and was let go
  std::optional<Clock::time_point> announced_;  // when it said that it ends
  std::optional<values::Sample> at_end_;        // what was read then, and is not written yet
  std::vector<bool> hidden_;
  bool program_follows_ = false;
  std::optional<std::string> denied_;        // why it may not be measured any more
  std::optional<values::Sample> permitted_;  // the last one, where that is asked for
  Clock::time_point asked_;                  // when that was looked at last
  std::optional<Result<int>> result_;
};

}  // namespace mdl::inject
