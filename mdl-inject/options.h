// The command line of mdl-inject (the contract in docs/architecture.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/output/formats.h"
#include "runtime/session/options.h"

namespace mdl::inject {

enum class Command { measure, list, status, remove, verify, check, metrics, introduce };

// A process that was named: by its id or a name that is its alone; found: by one that others may have, too, or in a
// control group; or a child of another. Of the last two there may be fewer by now.
struct Target {
  enum class How { named, found, child };
  pid_t pid = 0;
  uint64_t start = 0;  // when it started; 0 where that is not known
  How how = How::named;
};

struct Options : SessionOptions {  // pid: none yet where a program is to be started (--run)
  Command command = Command::measure;
  std::string plan;                  // file, for measure and verify; "" where queries or sources stand for it
  std::vector<std::string> typed;    // queries, as they were typed
  std::vector<std::string> sources;  // files of MDL
  std::vector<std::string> drill_queries = {};     // compiled with them (drill_queries.h)
  std::string process;                             // -p: names and ids, with commas; "" = pid is given
  bool every = false;                              // a name may be that of several processes
  bool all_children = false;                       // their descendants, too
  std::string cgroup;                              // in the place of -p: the processes of a control group
  std::string container;                           // likewise, of a container
  std::vector<std::string> container_groups = {};  // its control groups, once they are known (containers.h)
  bool names_group() const { return !cgroup.empty() || !container.empty(); }
  bool skip_refused = false;    // where a process cannot be measured, others are
  std::vector<Target> targets;  // what these mean: pid, and others (find_process.h)
  bool names_several() const {
    return every || all_children || follow || names_group() || process.find(',') != process.npos;
  }
  bool busiest = false;          // `top`: what is measured are the busiest functions (top.h)
  double sample = 1;             // seconds in which they are looked for
  bool show_mdl = false;         // print what the queries stand for, and measure nothing
  std::string glob;              // for list; "" = all
  bool is_listing = false;       // what is measured are resources for it (resources.h)
  std::vector<std::string> run;  // the program to start, with its arguments; empty = the plan's process
  std::string folder;            // in which it begins; "" = the present one
  std::string format;            // one of output::formats(); "" = table on a terminal, else ndjson
  output::Look look = {};        // of the table
  std::string output;            // file; "" = standard output
  bool allow_command = false;    // start the plan's own command
  bool separate = false;  // privileges (kernel/broker.h): where there are some, unless it is told otherwise
  bool standard_plan = false;          // it is an installed one (plan_file.h)
  std::optional<std::string> trusted;  // file or directory of keys: the plan must be signed with one
  bool alone = false;                  // neither a guest of another mdl-inject (guest.h) nor a host
  bool break_lock = false;             // an mdl-inject that holds the process's lock is ended
  // All that is measured was typed for this.
  bool is_query() const { return !typed.empty() && sources.empty(); }
  // Else the plan may have another default (defaults.h).
  bool interval_given = false;
  bool max_keys_given = false;
};

// The parsed options, or the exit status after help, the version or a usage error was printed.
struct Parsed {
  Options options;
  std::optional<int> exit;
};
Parsed parse_options(int argc, const char* const* argv);

}  // namespace mdl::inject
