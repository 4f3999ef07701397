#include "runtime/session/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/phases.h"
#include "base/say.h"
#include "runtime/kernel/handle.h"
#include "runtime/process/target.h"
#include "runtime/process/trace_stop.h"
#include "runtime/session/users.h"

namespace mdl::inject {

using namespace std::chrono_literals;

// How often processes are asked whether they stand at their exit, where they wait to be asked: after a hundredth
// of the time in which nothing has happened.
constexpr auto kSoonest = 1ms, kLatest = 10ms;
constexpr auto kLongestQuiet = 500ms;         // without a whole turn
constexpr auto kChildrenLook = 500ms;         // from look to look for children that have announced nothing
constexpr std::chrono::seconds kForking{30};  // for children that are made while others are let go
// How long a turn of the session may take, a sample that its output takes at once, and an insertion into
// another program: what waits in followed processes goes on after that.
constexpr auto kTurn = 5s, kWrite = 1s, kAttach = 60s;

Session::Session(const SessionOptions& options, const plan::Plan& plan, const Watch& watch,
                 output::Feed& feed, std::vector<std::unique_ptr<AttachedProcess>> named,
                 ChangeSources changes, std::optional<Newcomers::Source> source)
    : options_(options),
      plan_(plan),
      watch_(watch),
      feed_(feed),
      changes_(options, feed, std::move(changes)),
      started_(Clock::now()) {
  if (options.follow_fork) heart_.emplace();
  if (options.follows_programs()) programs_.emplace(*heart_);
  if (source) newcomers_.emplace(std::move(*source));
  if (options.several) {
    auto sums = std::make_unique<output::Sums>(feed);
    sums_ = sums.get();
    feed.add(std::move(sums));
  }
  for (auto& one : named) add_family(std::move(one));
}

Session::~Session() {
  feed_.meanwhile = [] {};
}

Result<int> Session::run(std::optional<process::Launch>& launched) {
  Result<void> done;
  try {
    done = sample_until_end(launched);
  } catch (const std::exception& problem) {
    done = Error{problem.what()};
  }
  if (!done) abandon(done.error());
  Result<int> out = result();
  changes_.end_guests(out, ends_before_process_);
  if (out && !done) return done.error();
  if (out && *out == 0 && newcomers_ && !has_anybody_come_) {
    const std::string& why = newcomers_->last_missed();
    say(stderr, "mdl-inject: no process has come that could be measured{}\n",
        why.empty() ? "" : "; the last one that came has ended: " + why);
    return static_cast<int>(Status::failed);
  }
  if (out && *out == 0 && options_.may_come_later() && found_.say_unreached(options_.verbose))
    return static_cast<int>(Status::failed);
  return out;
}

// An error when there is no use in going on.
Result<void> Session::sample_until_end(std::optional<process::Launch>& launched) {
  for (const Family& family : families_) {
    AttachedProcess& one = *family.processes.front();
    if (one.measurement().is_hidden()) continue;
    if (options_.several) say(stderr, "process {}: ", one.measurement().pid());
    one.say_inserted();
  }
  if (auto ok = feed_.begin(); !ok) return ok;
  if (launched) launched->let_go();
  for (const Family& family : families_) family.processes.front()->measurement().let_run();
  feed_.keep_samples();
  feed_.meanwhile = [this] { serve(); };
  started_ = news_ = Clock::now();
  Clock::time_point next = started_;
  auto interval =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.interval));
  if (options_.duration)
    end_ = started_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*options_.duration));
  while (!is_over()) {
    Clock::time_point now = Clock::now();
    ends_before_process_ = end_ && now >= *end_;
    if (ends_before_process_) break;
    if (now >= next) {
      next += interval * (1 + (now - next) / interval);
      if (auto ok = sample(); !ok) return ok;
    }
    const auto event = wait_until(end_ ? std::min(next, *end_) : next);
    if (!event) return event.error();
    ends_before_process_ = *event == Watch::Event::interrupted;
    if (ends_before_process_) break;
    begin_turn();
    // Before a process that stands at its end is let go: its children may be known only to it.
    look_for_children(Clock::now() - looked_ >= kChildrenLook);
    if (*event == Watch::Event::ended) end_the_ended();
    look_at_all();
    look_for_programs();
    look_for_newcomers();
    settle();
    changes_.obey([this] { return first_process(); });
    serve_guests();
    if (auto ok = feed_.hand_out(); !ok) return ok;
  }
  phases::begin("removal");
  take_out();
  if (auto ok = feed_.hand_out(); !ok) return ok;
  if (auto ok = write_sums(); !ok) return ok;
  return feed_.end();
}

Result<void> Session::sample() {
  std::vector<output::Point>& points = points_;
  points.clear();
  for (Family& family : families_)
    for (auto& one : family.processes)
      if (!one->measurement().result()) one->measurement().sample(points);
  keep_waiting(kWrite);
  if (sums_ && !points.empty()) {
    sums_->take(points);
    sums_->append(points);
  }
  return feed_.hand_out(points);
}

Result<void> Session::write_sums() {
  std::vector<output::Point> points;
  if (sums_) sums_->append(points);
  if (!points.empty()) (void)feed_.sample(points, true);
  return feed_.hand_out();
}

// A fork's child waits, too, until it is seen.
Session::Clock::duration Session::patience(Clock::time_point now) const {
  if (options_.follow_fork) return kSoonest;
  return std::clamp<Clock::duration>((now - news_) / 100, kSoonest, kLatest);
}

// A whole turn takes many times as long as the calls that say that there is nothing to do.
Result<Watch::Event> Session::wait_until(Clock::time_point until) {
  until = std::min(until, Clock::now() + kLongestQuiet);
  if (options_.follow_fork) until = std::min(until, looked_ + kChildrenLook);
  if (newcomers_) until = std::min(until, newcomers_->next_look());
  std::vector<const ProcessHandle*> alive;
  for (const Family& family : families_)
    for (const Measurement* one : family.measured()) alive.push_back(&one->process());
  std::vector<pollfd> files = watch_.files(alive);
  for (;;) {
    const Clock::time_point now = Clock::now();
    const Watch::Event event = watch_.wait_until(std::min(until, now + patience(now)), files);
    if (event == Watch::Event::interrupted) return event;
    if (auto ok = feed_.look(); !ok) return ok.error();
    if (event == Watch::Event::ended || Clock::now() >= until || !is_quiet()) return event;
  }
}

bool Session::is_quiet() {
  if (!changes_.is_quiet() || (programs_ && !programs_->empty())) return false;
  return std::ranges::all_of(families_, [](Family& family) {
    return (!family.follow || family.follow->is_quiet(family.measured())) &&
           std::ranges::all_of(family.processes, [](const auto& one) { return one->is_quiet(); });
  });
}

bool Session::is_to_end() const {
  if (end_ && Clock::now() >= *end_) return true;
  std::vector<pollfd> signals = watch_.files({});
  return watch_.wait_until(Clock::now(), signals) == Watch::Event::interrupted;
}

void Session::look_at_all() {
  process::stop_tracing_all();  // first threads that ended before their others, which end now
  for (Family& family : families_)
    for (auto& one : family.processes) {
      if (one->measurement().result()) continue;
      one->say_what_was_found();
      if (one->look_for_libraries()) {
        family.hidden = one->measurement().hidden();
        family.addresses = one->measurement().addresses();
      }
      if (one->measurement().look()) news_ = Clock::now();
    }
}

// Between two writes: whatever waits in a process goes on, however long a reader of the output takes.
void Session::serve() {
  begin_turn();
  look_for_children(Clock::now() - looked_ >= kChildrenLook);
  look_at_all();
  look_for_programs();
  look_for_newcomers();
  serve_guests();
}

void Session::serve_guests() {
  changes_.serve_guests(first_process());
}

// Of a session of one process, that one.
AttachedProcess* Session::first_process() const {
  if (families_.empty() || families_.front().processes.empty()) return nullptr;
  AttachedProcess* const out = families_.front().processes.front().get();
  return out->measurement().result() ? nullptr : out;
}

Session::Measured Session::Family::measured() const {
  Measured out;
  for (const auto& one : processes)
    if (!one->measurement().result()) out.push_back(&one->measurement());
  return out;
}

void Session::add_family(std::unique_ptr<AttachedProcess> process) {
  has_anybody_come_ = true;
  Family& family = families_.emplace_back();
  family.hidden = process->measurement().hidden();
  family.addresses = process->measurement().addresses();
  if (options_.follow_fork) family.follow.emplace(process->measurement().journal(), options_);
  add(family, std::move(process));
  if (programs_) family.follow->expect_programs(family.measured());
}

void Session::add(Family& family, std::unique_ptr<AttachedProcess> process) {
  const Measurement& one = process->measurement();
  process->give_up_joins([this] { return is_to_end(); });
  if (heart_) heart_->add(&one, one.pid(), one.memory(), family.follow->session());
  family.processes.push_back(std::move(process));
}

bool Session::look_for_children(Family& family, bool thoroughly) {
  if (!family.follow) return false;
  std::vector<Follow::Child> children = family.follow->look(
      family.measured(), thoroughly, [this](pid_t pid) { return programs_ && programs_->watches(pid); });
  for (Follow::Child& child : children) {
    auto measurement =
        std::make_unique<Measurement>(options_, std::move(child.process), std::move(child.journal),
                                      std::move(child.memory), feed_, elapsed_s());
    measurement->hide(family.hidden);
    measurement->name_addresses(family.addresses);
    if (!measurement->is_hidden())
      say(stderr, "process {} was forked: it is measured, too\n", measurement->pid());
    add(family, std::make_unique<AttachedProcess>(std::move(measurement)));
  }
  return !children.empty();
}

bool Session::look_for_children(bool thoroughly) {
  if (thoroughly) looked_ = Clock::now();
  bool any = false;
  for (Family& family : families_) any = look_for_children(family, thoroughly) || any;
  return any;
}

Measurement* Session::find(pid_t pid) const {
  for (const Family& family : families_)
    for (const auto& one : family.processes)
      if (one->measurement().pid() == pid && !one->measurement().result()) return &one->measurement();
  return nullptr;
}

// One thread of a process at a time: the others wait, or end with it (process/exec_watch.h).
void Session::follow(const Follow::Asker& asker, Family& family) {
  if (programs_->watch_again(asker.tid)) {
    family.follow->answer(asker, family.measured());
    return;
  }
  if (programs_->watches(asker.process)) return;
  if (auto ok = check_users(asker.process, options_); !ok) {
    say_unmeasured(asker.process, ok.error().text);
    family.follow->answer(asker, family.measured());
    return;
  }
  go_first(true);
  Measurement* own = find(asker.process);
  const bool watched =
      programs_->watch(asker.tid, asker.process, *asker.memory, family.follow->session().code);
  if (own) own->expect_program(watched);
  if (!watched && process::is_alive_thread(asker.tid))
    say(stderr, "warning: process {} executes a program that cannot be followed: may it be traced?\n",
        asker.process);
  family.follow->answer(asker, family.measured());
}

void Session::look_for_programs() {
  if (!programs_) return;
  for (Family& family : families_)
    if (family.follow)
      for (const Follow::Asker& asker : family.follow->asking(family.measured())) follow(asker, family);
  Programs::News news = programs_->look();
  for (pid_t pid : news.stayed)
    if (Measurement* one = find(pid)) one->expect_program(false);
  for (pid_t pid : news.executed)
    if (Measurement* one = find(pid)) one->look();
  for (Programs::Arrived& arrived : news.arrived)
    if (auto ok = attach(arrived); !ok) say_unmeasured(arrived.pid, ok.error().text);
  go_first(programs_->watches_any());
}

// A thread that is to execute a program waits for us, so on a busy machine we do not wait for others, if we may.
void Session::go_first(bool on) {
  if (on != goes_first_) goes_first_ = kernel::hurry(on) && on;
}

void Session::keep_waiting(std::chrono::seconds time) {
  if (heart_) heart_->go_on_for(time);
}

void Session::begin_turn() {
  if (heart_) heart_->begin_turn(kTurn, programs_ && !programs_->empty());
}

Result<void> Session::attach(Programs::Arrived& arrived) {
  keep_waiting(kAttach);
  auto process = AttachedProcess::look(options_, plan_, arrived.pid, process::read_status(arrived.pid).name,
                                       arrived.memory);
  if (!process) return process.error();
  if (options_.explain) (*process)->explain();
  if (auto ok = (*process)->check(); !ok) return ok;
  if (auto ok = (*process)->insert(arrived.memory, feed_, elapsed_s()); !ok) return ok;
  Measurement& measurement = (*process)->measurement();
  if (!measurement.is_hidden()) {
    say(stderr, "process {} executes {}: ", arrived.pid, process::program_of(arrived.pid));
    (*process)->say_inserted();
  }
  add_family(std::move(*process));
  measurement.let_run();
  return {};
}

// What such a child did before it was found is missing, and nobody sees that in its lines.
void Session::tell_of_forks(pid_t child) {
  if (options_.follow_fork || has_told_of_forks_ || !find(process::read_status(child).parent)) return;
  has_told_of_forks_ = true;
  say(stderr,
      "note: process {} was forked by one that is measured, and what it did until now is not counted; with "
      "--follow-fork it is counted from the fork on\n",
      child);
}

// By turns: others may stand at their ends meanwhile. Children that are followed have the code already.
void Session::look_for_newcomers() {
  if (!newcomers_ || Clock::now() < newcomers_->next_look()) return;
  look_for_children(true);
  for (const pid_t pid : newcomers_->look()) {
    if (Measurement* one = find(pid)) {
      // What it executes in its own place is measured when the old program has got its last values.
      if (one->memory().is_of(pid))
        newcomers_->drop(pid);
      else
        one->look();
      continue;
    }
    keep_waiting(kAttach);
    auto process = newcomers_->attach(pid, elapsed_s());
    if (!process) continue;
    say(stderr, "process {} has come: ", pid);
    process->say_inserted();
    tell_of_forks(pid);
    add_family(std::move(process));
    families_.back().came_later = true;
    begin_turn();
    look_at_all();
  }
}

void Session::end_the_ended() {
  for (Family& family : families_)
    for (auto& one : family.processes)
      if (Measurement& m = one->measurement(); !m.result() && m.process().ends_within(0ms)) m.end();
}

void Session::note_result(const Family& family, pid_t pid, const Result<int>& result) {
  if (family.came_later && result) {
    if (*result != 0) results_.insert_or_assign(pid, result);
  } else if (!family.came_later && options_.has_name(pid))
    results_.insert_or_assign(pid, result);
  else if (!result && !first_problem_)
    first_problem_ = result.error();
  else if (!result)
    say(stderr, "mdl-inject: {}\n", result.error().text);
}

void Session::end_waiting(const Measurement& measurement) {
  if (heart_) heart_->drop(&measurement);
}

void Session::settle() {
  for (Family& family : families_) {
    for (const auto& one : family.processes) {
      const Measurement& measurement = one->measurement();
      if (!measurement.result()) continue;
      end_waiting(measurement);
      note_result(family, measurement.pid(), *measurement.result());
      one->report_to(found_);
    }
    std::erase_if(family.processes, [](const auto& one) { return one->measurement().result().has_value(); });
    // When the last one has ended, its children may not have said anything yet.
    if (family.follow && !family.is_extinct && family.processes.empty() && !look_for_children(family, true)) {
      family.is_extinct = true;
      if (!family.follow->has_unmeasured()) family.follow.reset();
    }
  }
  std::erase_if(families_, [](const Family& family) { return family.processes.empty() && !family.follow; });
}

bool Session::is_over() const {
  return std::ranges::all_of(families_, [](const Family& family) { return family.processes.empty(); }) &&
         (!programs_ || programs_->empty()) && (!newcomers_ || !newcomers_->may_come());
}

void Session::end_following() {
  if (newcomers_) newcomers_->end();
  if (!programs_) return;
  programs_->let_go();
  for (Family& family : families_)
    if (family.follow) family.follow->ignore_programs(family.measured());
}

// Children that were made while others were let go. They may make children as fast as these are let go: after
// `until` the last ones are not looked for.
bool Session::look_for_more(Clock::time_point until) {
  if (Clock::now() < until) return look_for_children(true);
  say(stderr,
      "warning: children came for {} s while the instrumentation was taken out: the last ones may keep "
      "it; see mdl-inject --status, take it out with mdl-inject --remove\n",
      kForking.count());
  return false;
}

void Session::take_out() {
  end_following();
  if (options_.detach)
    for (Family& family : families_)
      if (family.follow) family.follow->leave(family.measured());
  const auto until = Clock::now() + kForking;
  do {
    for (Family& family : families_)
      // Children that are found meanwhile come behind.
      for (auto& one : family.processes) {
        if (one->measurement().result()) continue;
        keep_waiting(kTurn);
        if (Clock::now() < until) look_for_children(family, false);
        end_waiting(one->measurement());
        one->measurement().take_out();
      }
  } while (look_for_more(until));
  for (Family& family : families_)
    if (family.follow && !options_.detach) family.follow->clean();
  settle();
}

// The targets come first.
void Session::abandon(const Error& why) {
  end_following();
  const auto until = Clock::now() + kForking;
  do {
    for (Family& family : families_)
      for (auto& one : family.processes) {
        if (one->measurement().result()) continue;
        keep_waiting(kTurn);
        end_waiting(one->measurement());
        one->measurement().abandon(why);
      }
  } while (look_for_more(until));
  for (Family& family : families_)
    if (family.follow) family.follow->clean();
  settle();
  (void)feed_.hand_out();  // the reason is said
}

// That of the process that was named, unless something had to stay in another one. Of several, the worst: an error,
// before a status.
Result<int> Session::result() const {
  Result<int> out = 0;
  for (const auto& [pid, one] : results_) {
    if (!one && !out) say(stderr, "mdl-inject: {}\n", one.error().text);
    if (out && (!one || *out == 0)) out = one;
  }
  if (!first_problem_) return out;
  if (out) return *first_problem_;
  say(stderr, "mdl-inject: {}\n", first_problem_->text);
  return out;
}

double Session::elapsed_s() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

}  // namespace mdl::inject
