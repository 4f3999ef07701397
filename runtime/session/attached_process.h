// A process that a session measures, from the first look at it to its end.
//
//   look      reads what the process holds, binds the requests to it and finds out which of their points can
//             be instrumented; nothing is changed in it
//   insert    puts the code in
// From then on it is measured, and its libraries come and go. A child that it forks has the code already.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/arch/clock.h"
#include "runtime/focus/inlined_calls.h"
#include "runtime/output/formats.h"
#include "runtime/output/rows.h"
#include "runtime/patch/insert.h"
#include "runtime/process/lock.h"
#include "runtime/session/confinement.h"
#include "runtime/session/libraries.h"
#include "runtime/session/likeness.h"
#include "runtime/session/measured.h"
#include "runtime/session/measurement.h"
#include "runtime/session/next_requests.h"
#include "runtime/session/options.h"

namespace mdl::inject {

// What a process holds, held still: code in which somebody else inserts, or from which he removes, is not the program's
// own.
struct Contents {
  process::TransactionLock lock;
  image::Image image;
};
// Nothing is decoded yet. `patience`: with somebody else who changes the process.
Result<Contents> read_contents(pid_t pid, std::chrono::milliseconds patience);

class AttachedProcess {
 public:
  // Processes that were looked at just before, and have not been changed yet.
  using Kin = std::vector<const AttachedProcess*>;
  // `options` and `plan` outlive it. `memory` is that of the process, whose name is `name`. `contents`: where they have
  // been read already. `kin`: what was found out about one of them is taken over where it is true of this one, too
  // (likeness.h); null where no other process is looked at.
  static Result<std::unique_ptr<AttachedProcess>> look(const SessionOptions& options, const plan::Plan& plan,
                                                       pid_t pid, const std::string& name,
                                                       const process::TargetMemory& memory,
                                                       std::optional<Contents> contents = {},
                                                       const Kin* kin = nullptr);
  // A child that has been forked with the code.
  explicit AttachedProcess(std::unique_ptr<Measurement> measurement) : measurement_(std::move(measurement)) {}
  AttachedProcess(const AttachedProcess&) = delete;
  AttachedProcess& operator=(const AttachedProcess&) = delete;

  // --explain: what the requests became.
  void explain() const;
  // --dry-run: what would be done, on standard output; the exit status.
  int print_rehearsal(output::Rows& rows) const;
  // Whether the requests may be measured as they are: what they reach, and what that costs.
  Result<void> check() const;

  // Takes `memory`. An error leaves the process as it was, or says how it is. `began_s`: as of Measurement.
  Result<void> insert(process::TargetMemory& memory, output::Feed& feed, double began_s);
  void say_inserted();
  // What it takes longer to find out; once.
  void say_what_was_found();
  // By the journal's requests: which have nothing that they could count in this program. Those are not shown
  // where other programs may have it.
  std::vector<bool> hollow() const;
  Measurement& measurement() const { return *measurement_; }
  // A guest that comes takes seconds where much is measured: that is given up as soon as `ends` says that the session is
  // to end. What the session's own user has asked for is done.
  void give_up_joins(std::function<bool()> ends) { is_to_end_ = std::move(ends); }
  bool is_to_end() const { return is_to_end_ && is_to_end_(); }
  // Other requests from now on (patch/change.h), in one stop of the process. `points` gets a sample of the
  // moment before. An error leaves all as it was. The insertion that it was, in words.
  Result<std::string> change(const RequestChange& change, output::Feed& feed,
                             std::vector<output::Point>& points);
  // Likewise, without points: others' requests come.
  Result<std::string> join(GuestRequests guest);
  // And go; the points are their last ones.
  Result<std::string> leave(const output::Feed& feed, std::vector<output::Point>& points);
  // The requests that come with what the table's keys ask for; none where all of them are there.
  Result<RequestChange> requests_for(const output::Drill& drill) const;
  // True when what was hollow may not be any more, or keys may have other names.
  bool look_for_libraries();
  // Whether looks at it would find nothing to do.
  bool is_quiet() {
    return measurement_->is_quiet() && (!libraries_ || libraries_->is_quiet()) && !is_to_search_ &&
           (!inlined_ || !inlined_->is_over());
  }
  // Adds what its requests found, at its end.
  void report_to(Found& found) const;

 private:
  AttachedProcess(const SessionOptions& options, const plan::Plan& plan, pid_t pid)
      : options_(&options), pid_(pid), measured_{.own_plan = &plan} {}
  Result<void> find_out(const std::string& name, const process::TargetMemory& memory,
                        std::optional<Contents> contents, const Kin* kin);
  // The image of one of `kin` that is true of this process, too; null: of none.
  Result<const AttachedProcess*> take_over(const Kin& kin);
  Result<void> read_image();
  void say_notes() const;  // of what a stranger would not expect of the numbers
  Result<void> decide_all(const process::TargetMemory& memory);
  Result<void> decide(const process::TargetMemory& memory);
  image::ReadLog* log() { return likeness_ ? &likeness_->log() : nullptr; }
  Result<void> identify(const process::TargetMemory& memory);
  struct Clocks {  // as of InsertInput
    uint64_t ticks_per_second = 0;
    arch::HitTime hit_time;
  };
  Result<Clocks> clocks_for(const plan::Plan& plan, const focus::Binding& binding) const;
  bool has_spare_room() const;
  // In one stop of the process; `sampled` gets the points of the moment before.
  Result<std::string> change(const Move& move, const output::Feed* sampled,
                             std::vector<output::Point>& points);
  // With what the attach has found out.
  patch::InsertInput input_of(Measured& measured, const Clocks& clocks) const;

  // A forked child has a measurement only; all else is empty.
  const SessionOptions* options_ = nullptr;
  pid_t pid_ = 0;
  arch::ClockPair since_;
  Allowed allowed_;
  std::unique_ptr<Likeness> likeness_;  // to those that are looked at behind it; else null
  Measured measured_;
  bool asked_patience_ = false;              // with a long look at its code
  bool is_alike_ = false;                    // what was found out about another one is true of it
  std::optional<patch::InsertInput> input_;  // of it
  patch::Inserted inserted_;
  std::unique_ptr<Measurement> measurement_;
  std::optional<Libraries> libraries_;
  bool is_to_search_ = false;                    // as soon as there is time
  std::optional<focus::InlinedSearch> inlined_;  // under way
  std::function<bool()> is_to_end_;
};

}  // namespace mdl::inject
