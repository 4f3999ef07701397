// Processes on their way into a session: what is done with each, from the first look at it to the code in it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mdl-inject/audit.h"
#include "mdl-inject/options.h"
#include "runtime/output/series.h"
#include "runtime/process/launch.h"
#include "runtime/process/target_memory.h"
#include "runtime/session/attached_process.h"

namespace mdl::inject {

// "process 12 (sh)"
std::string named(pid_t pid);

struct Joining {
  pid_t pid = 0;
  bool was_there = false;
  process::TargetMemory memory;
  std::unique_ptr<AttachedProcess> process;

  Error blamed(const Error& why) const;
};

// A process whose contents are read before its plan is there, while that is compiled.
struct Early {
  process::TargetMemory memory;
  Contents contents;
};
// Nothing where it has to be done again anyway, by look_at_all(), which says why.
std::optional<Early> look_early(pid_t pid);

// By turns, before anything is put into any of them. None is an error, but with --follow. `early`: of the only one.
Result<std::vector<Joining>> look_at_all(const Options& options, const plan::Plan& plan,
                                         std::optional<process::Launch>& launched, std::optional<Early> early,
                                         Audit& audit);
// All of them, or none: what was put in is taken out again.
Result<std::vector<std::unique_ptr<AttachedProcess>>> insert_all(const Options& options,
                                                                 const plan::Plan& plan, output::Feed& feed,
                                                                 std::vector<Joining> joining, Audit& audit);

// --follow: one that has come while the session goes on, which began so many seconds before. A transaction of its own.
Result<std::unique_ptr<AttachedProcess>> join(const Options& options, const plan::Plan& plan, pid_t pid,
                                              output::Feed& feed, double began_s, Audit& audit);

}  // namespace mdl::inject
