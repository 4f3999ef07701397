// The options as CLI11 knows them: their names, their order in --help, and what they say. What they mean together is
// options.cpp's, and what does not go together combinations.h's.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "mdl-inject/options.h"
#include "runtime/process/threads.h"

namespace mdl::inject {

// `options` are filled by the parse, but for what stands below.
struct CommandLine {
  explicit CommandLine(Options& into);
  CommandLine(const CommandLine&) = delete;

  bool has(const char* option) const { return app.count(option) > 0; }
  int commands() const { return list + run + status + remove + verify + metrics; }

  Options& options;
  CLI::App app;
  std::vector<std::string> words;  // PID, queries, sources, a plan, the command of --run
  double duration = 0;             // seconds
  double budget = 0;               // ns a hit
  int max_pause = static_cast<int>(process::kMaxPause.count());  // ms
  std::string trusted;
  bool joined = false;  // --no-separate
  bool traps = false;
  bool list = false, run = false, status = false, remove = false, verify = false, metrics = false;
};

}  // namespace mdl::inject
