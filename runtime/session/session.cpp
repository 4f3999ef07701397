#include "runtime/session/session.h"

#include <fmt/format.h>

#include <algorithm>

namespace mdl::inject {

using namespace std::chrono_literals;

constexpr auto kExitPoll = 1ms;        // how often processes are asked whether they stand at their exit
constexpr auto kChildrenLook = 500ms;  // from look to look for children that have announced nothing

Session::Session(const SessionOptions& options, const Watch& watch, output::Feed& feed,
                 std::unique_ptr<AttachedProcess> first)
    : options_(options), watch_(watch), feed_(feed), started_(Clock::now()) {
  if (options.follow_fork) follow_.emplace(first->measurement().journal());
  processes_.push_back(std::move(first));
}

Result<int> Session::run(std::optional<process::Launch>& launched) {
  Result<void> done;
  try {
    processes_.front()->say_inserted();
    done = sample_until_end(launched);
  } catch (const std::exception& problem) {
    done = Error{problem.what()};
  }
  if (!done) abandon(done.error());
  Result<int> out = result();
  if (out && !done) return done.error();
  if (out && *out == 0 && options_.await && processes_.front()->waits_in_vain())
    return static_cast<int>(Status::failed);
  return out;
}

// An error when there is no use in going on.
Result<void> Session::sample_until_end(std::optional<process::Launch>& launched) {
  if (auto ok = feed_.begin(); !ok) return ok;
  processes_.front()->measurement().expect_end();
  if (launched) launched->let_go();
  processes_.front()->measurement().let_run();
  started_ = Clock::now();
  Clock::time_point next = started_;
  auto interval =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.interval));
  std::optional<Clock::time_point> end;
  if (options_.duration)
    end = started_ +
          std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*options_.duration));
  // When the last one has ended, its children may not have said anything yet.
  while (!measured().empty() || look_for_children(true)) {
    Clock::time_point now = Clock::now();
    if (end && now >= *end) break;
    if (now >= next) {
      next += interval * (1 + (now - next) / interval);
      if (auto ok = sample(); !ok) return ok;
    }
    Clock::time_point until = std::min(next, now + kExitPoll);
    std::vector<const Process*> alive;
    for (const Measurement* one : measured()) alive.push_back(&one->process());
    const Watch::Event event = watch_.wait_until(end ? std::min(until, *end) : until, alive);
    if (event == Watch::Event::interrupted) break;
    // Before a process that stands at its end is let go: its children may be known only to it.
    look_for_children(Clock::now() - looked_ >= kChildrenLook);
    if (event == Watch::Event::ended) end_the_ended();
    for (auto& one : processes_) {
      if (one->measurement().result()) continue;
      one->look_for_libraries();
      one->measurement().look();
    }
  }
  take_out();
  return feed_.end();
}

Result<void> Session::sample() {
  std::vector<output::Point> points;
  for (auto& one : processes_)
    if (!one->measurement().result()) one->measurement().sample(points);
  return points.empty() ? Result<void>{} : feed_.sample(points, false);
}

bool Session::look_for_children(bool thoroughly) {
  if (!follow_) return false;
  if (thoroughly) looked_ = Clock::now();
  std::vector<Follow::Child> children = follow_->look(measured(), thoroughly);
  for (Follow::Child& child : children) {
    const double since = std::chrono::duration<double>(Clock::now() - started_).count();
    fmt::print(stderr, "process {} was forked: it is measured, too\n", child.process.pid());
    processes_.push_back(std::make_unique<AttachedProcess>(
        std::make_unique<Measurement>(options_, std::move(child.process), std::move(child.journal),
                                      std::move(child.memory), feed_, since)));
  }
  return !children.empty();
}

void Session::end_the_ended() {
  for (auto& one : processes_)
    if (Measurement& m = one->measurement(); !m.result() && m.process().ends_within(0ms)) m.end();
}

void Session::take_out() {
  if (options_.detach && follow_) follow_->leave(measured());
  do {
    // By index: children that are found meanwhile come behind.
    for (size_t i = 0; i < processes_.size(); i++) {
      if (processes_[i]->measurement().result()) continue;
      look_for_children(false);
      processes_[i]->measurement().take_out();
    }
  } while (look_for_children(true));
  if (follow_ && !options_.detach) follow_->clean();
}

// The targets come first.
void Session::abandon(const Error& why) {
  do {
    for (size_t i = 0; i < processes_.size(); i++)
      if (!processes_[i]->measurement().result()) processes_[i]->measurement().abandon(why);
  } while (look_for_children(true));
  if (follow_) follow_->clean();
}

// That of the first process, unless something had to stay in another one.
Result<int> Session::result() const {
  Result<int> out = *processes_.front()->measurement().result();
  for (size_t i = 1; i < processes_.size(); i++) {
    const Result<int>& one = *processes_[i]->measurement().result();
    if (one) continue;
    if (out)
      out = one;
    else
      fmt::print(stderr, "mdl-inject: {}\n", one.error().text);
  }
  return out;
}

std::vector<const Measurement*> Session::measured() const {
  std::vector<const Measurement*> out;
  for (const auto& one : processes_)
    if (!one->measurement().result()) out.push_back(&one->measurement());
  return out;
}

}  // namespace mdl::inject
