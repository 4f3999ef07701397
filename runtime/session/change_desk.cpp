#include "runtime/session/change_desk.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/say.h"
#include "runtime/focus/request.h"

namespace mdl::inject {

bool ChangeDesk::is_quiet() const {
  if (sources_.commands || (sources_.drills && sources_.drills->any())) return false;
  return !sources_.guests || sources_.guests->is_quiet();
}

void ChangeDesk::obey(const Process& process) {
  if (sources_.commands && process())
    for (const std::string& line : sources_.commands->read()) {
      auto parsed = parse_command(line);
      const auto done =
          parsed ? change_and_log(process(), line, *parsed) : Result<std::string>(parsed.error());
      say(stderr, "{}: {}: {}\n", line, done ? "done" : "refused", done ? *done : done.error().text);
    }
  if (sources_.drills)
    for (const output::Drill& one : sources_.drills->take())
      if (AttachedProcess* const there = process()) drill(*there, one);
}

void ChangeDesk::serve_guests(AttachedProcess* process) {
  if (sources_.guests && process) sources_.guests->serve(*process, options_);
}

void ChangeDesk::end_guests(const Result<int>& result, bool ends_before_process) {
  if (!sources_.guests) return;
  guest_wire::Farewell farewell{.host_ends = ends_before_process};
  farewell.status = result ? *result : static_cast<int>(result.error().status);
  if (!result) farewell.why = result.error().text;
  sources_.guests->end(farewell);
}

Result<std::string> ChangeDesk::change(AttachedProcess* process, const RequestChange& change) {
  if (!options_.changes() || options_.follow_fork)
    return Error{"this session has no room for other requests (--commands makes it)"};
  if (!process) return Error{"there is no process any more"};
  std::vector<output::Point> points;
  auto done = process->change(change, feed_, points);
  if (!done || points.empty()) return done;
  if (auto ok = feed_.sample(points, false); !ok) say(stderr, "mdl-inject: {}\n", ok.error().text);
  return done;
}

Result<std::string> ChangeDesk::change_and_log(AttachedProcess* process, const std::string& text,
                                               const RequestChange& change) {
  if (sources_.log)
    if (auto logged = sources_.log(text, "begins"); !logged) return logged.error();
  auto done = this->change(process, change);
  if (sources_.log) (void)sources_.log(text, done ? "done" : done.error().text);
  return done;
}

// What has come goes when it is asked for again.
void ChangeDesk::drill(AttachedProcess& process, const output::Drill& drill) {
  auto& open = sources_.drills->open;
  const std::string of = focus::request_text(drill.metric, drill.focus);
  const std::string what = drill.kind == output::Drill::Kind::threads   ? fmt::format("{} by thread", of)
                           : drill.kind == output::Drill::Kind::callers ? fmt::format("{} by caller", of)
                                                                        : fmt::format("what {} calls", of);
  const auto known = open.find(drill);
  const bool comes = known == open.end();
  auto change = comes ? process.requests_for(drill)
                      : Result<RequestChange>(RequestChange{.add = {}, .remove = known->second});
  if (comes && change && change->add.empty())
    change = Error{"nothing else that can be measured is known there"};
  auto done = change ? change_and_log(&process, fmt::format("{} {}", comes ? "add" : "remove", what), *change)
                     : Result<std::string>(change.error());
  if (!done) return say(stderr, "{}: refused: {}\n", what, done.error().text);
  say(stderr, "{}: {}: {}\n", what, comes ? "comes" : "goes", *done);
  if (comes)
    open.emplace(drill, std::move(change->add));
  else
    open.erase(known);
}

}  // namespace mdl::inject
