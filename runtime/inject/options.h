// The command line of mdl-inject (the contract in docs/architecture.md).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/patch/key_table.h"

namespace mdl::inject {

enum class Command { measure, list, status, remove, verify, check };

struct Options {
  Command command = Command::measure;
  pid_t pid = 0;
  std::string plan;              // file, for measure and verify
  std::string glob;              // for list; "" = all
  bool start = false;            // --run: there is no pid yet
  std::vector<std::string> run;  // the program to start, with its arguments; empty = the plan's process
  std::vector<std::string> metrics;
  std::vector<std::string> foci;
  double interval = 1;             // seconds between samples
  bool interval_given = false;     // else the plan may have another default (defaults.h)
  std::optional<double> duration;  // seconds; none = until interrupted or the end of the target
  std::string format;              // of output/formats.def; "" = table on a terminal, else ndjson
  std::string output;              // file; "" = standard output
  std::string flavor;
  bool dry_run = false;
  bool explain = false;
  bool strict = false;
  bool detach = false;
  bool check = false;
  bool follow_fork = false;
  bool allow_calls = false;
  bool raw_times = false;
  std::optional<double> budget;  // nanoseconds that the code of a point may take; none = a warning (budget.h)
  std::optional<std::string> trusted;  // file or directory of keys: the plan must be signed with one
  bool await = false;
  uint64_t max_keys = patch::kDefaultKeys;
  bool max_keys_given = false;
};

// The parsed options, or the exit status after help, the version or a usage error was printed.
struct Parsed {
  Options options;
  std::optional<int> exit;
};
Parsed parse_options(int argc, const char* const* argv);

}  // namespace mdl::inject
