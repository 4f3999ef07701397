// Changes of a session's requests while it runs: from commands (commands.h), the table's keys (drills.h) and other
// mdl-inject (guests.h). Each is a transaction of its own (patch/change.h), is logged and answered.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "runtime/output/series.h"
#include "runtime/session/attached_process.h"
#include "runtime/session/commands.h"
#include "runtime/session/drills.h"
#include "runtime/session/guests.h"
#include "runtime/session/options.h"

namespace mdl::inject {

// Where they come from; null: from nowhere.
struct ChangeSources {
  Commands* commands = nullptr;
  Drills* drills = nullptr;
  Guests* guests = nullptr;
  // Gets each change with what becomes of it: begins, done or an error's text. Where it fails at first, the change is
  // refused.
  std::function<Result<void>(const std::string& change, const std::string& outcome)> log = {};
};

class ChangeDesk {
 public:
  // The process of the session, of which there is one; null when it is over.
  using Process = std::function<AttachedProcess*()>;

  // `options` and `feed` outlive it.
  ChangeDesk(const SessionOptions& options, output::Feed& feed, ChangeSources sources)
      : options_(options), feed_(feed), sources_(std::move(sources)) {}

  // Whether nothing has been asked for.
  bool is_quiet() const;
  // Does what commands and the table's keys ask for, and says what was done.
  void obey(const Process& process);
  void serve_guests(AttachedProcess* process);
  // They have their last values. `ends_before_process`: the session does.
  void end_guests(const Result<int>& result, bool ends_before_process);

 private:
  // What was done, in words.
  Result<std::string> change(AttachedProcess* process, const RequestChange& change);
  Result<std::string> change_and_log(AttachedProcess* process, const std::string& text,
                                     const RequestChange& change);
  void drill(AttachedProcess& process, const output::Drill& drill);

  const SessionOptions& options_;
  output::Feed& feed_;
  const ChangeSources sources_;
};

}  // namespace mdl::inject
