// A session: the processes that are measured, the requests, and a clock (architecture, decision 11).
//
// Processes come and go. A family is those that have the code of one insertion: a process and the children
// that it forks. A program that one of them executes is the first of a family of its own.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/output/series.h"
#include "runtime/output/sums.h"
#include "runtime/process/launch.h"
#include "runtime/session/attached_process.h"
#include "runtime/session/change_desk.h"
#include "runtime/session/check.h"
#include "runtime/session/follow.h"
#include "runtime/session/heartbeat.h"
#include "runtime/session/newcomers.h"
#include "runtime/session/options.h"
#include "runtime/session/programs.h"
#include "runtime/session/watch.h"

namespace mdl::inject {

class Session {
 public:
  // All of `named` have been instrumented; all else outlives it. `source`: of --follow; with it there may be nobody at
  // first.
  Session(const SessionOptions& options, const plan::Plan& plan, const Watch& watch, output::Feed& feed,
          std::vector<std::unique_ptr<AttachedProcess>> named, ChangeSources changes = {},
          std::optional<Newcomers::Source> source = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Samples until something ends it, then takes everything out, whatever happens here.
  // A program that was started for it is let go when everything is ready for its end. Returns the exit
  // status.
  Result<int> run(std::optional<process::Launch>& launched);

 private:
  using Clock = std::chrono::steady_clock;
  using Measured = std::vector<const Measurement*>;
  struct Family {
    std::optional<Follow> follow;
    std::list<std::unique_ptr<AttachedProcess>> processes;
    std::vector<bool> hidden;                              // Measurement::hide, of all of them
    bool is_extinct = false;                               // nobody has been left
    bool came_later = false;                               // by --follow
    std::shared_ptr<const image::AddressNames> addresses;  // of the first process
    Measured measured() const;
  };

  Result<void> sample_until_end(std::optional<process::Launch>& launched);
  Result<void> sample();
  // The last one of all together.
  Result<void> write_sums();
  // How long nobody asks processes whether they wait for us.
  Clock::duration patience(Clock::time_point now) const;
  // Returns at `until`, or when there may be something to do.
  Result<Watch::Event> wait_until(Clock::time_point until);
  bool is_quiet();
  // Its time is over, or somebody has interrupted it.
  bool is_to_end() const;
  void look_at_all();
  void serve();
  void serve_guests();
  AttachedProcess* first_process() const;

  void add_family(std::unique_ptr<AttachedProcess> process);
  void add(Family& family, std::unique_ptr<AttachedProcess> process);
  // Children that were forked; true when there are some.
  bool look_for_children(Family& family, bool thoroughly);
  bool look_for_children(bool thoroughly);
  void look_for_programs();
  void look_for_newcomers();
  void tell_of_forks(pid_t child);
  void go_first(bool on);
  void follow(const Follow::Asker& asker, Family& family);
  Result<void> attach(Programs::Arrived& arrived);
  Measurement* find(pid_t pid) const;

  void end_the_ended();
  // Takes note of those that are over, and forgets them.
  void settle();
  void note_result(const Family& family, pid_t pid, const Result<int>& result);
  // True when there is nothing left to be measured, nor on its way.
  bool is_over() const;

  // Followed processes wait for us for so long from now on.
  void begin_turn();
  void keep_waiting(std::chrono::seconds time);
  // Lets those go on that wait for us.
  void end_following();
  void end_waiting(const Measurement& measurement);
  void take_out();
  bool look_for_more(Clock::time_point until);
  void abandon(const Error& why);
  Result<int> result() const;
  double elapsed_s() const;

  const SessionOptions& options_;
  const plan::Plan& plan_;
  const Watch& watch_;
  output::Feed& feed_;
  ChangeDesk changes_;
  Clock::time_point started_;
  std::optional<Clock::time_point> end_;  // by SessionOptions::duration
  std::list<Family> families_;
  std::optional<Heartbeat> heart_;      // where forks are followed; it ends before the families that it reads
  std::optional<Programs> programs_;    // where they are followed, too
  std::optional<Newcomers> newcomers_;  // with --follow
  bool has_anybody_come_ = false;
  bool has_told_of_forks_ = false;
  bool ends_before_process_ = false;
  bool goes_first_ = false;
  Found found_;
  Clock::time_point news_;  // when something came between samples
  Clock::time_point looked_;
  std::map<pid_t, Result<int>> results_;  // of the last program of each process that was named
  std::optional<Error> first_problem_;    // of any other
  std::vector<output::Point> points_;     // of the last sample
  output::Sums* sums_ = nullptr;          // the feed's, where there are several
};

}  // namespace mdl::inject
