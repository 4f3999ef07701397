// -p, --every, --all-children, --cgroup, --container: the processes that are meant, at the beginning and, with
// --follow, again and again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "mdl-inject/options.h"

namespace mdl::inject {

// Fills in the targets, the first one's id and those of the others. A name is that of the program's file, of the first
// word of the command line, or what a process calls itself. Errors: none has it, with the near names; several have,
// with a list to choose from. With --follow there may be none yet.
Result<void> find_processes(Options& options);

// Says of --follow-fork that it does not measure the children which are there already: those of a server do its work.
void tell_of_children(const Options& options);

// --follow: the processes that the same options mean later. It runs where the privileges are (kernel/broker.h), so it
// reads nothing but what the kernel says of processes. A process is known by its id, the time of its start and the
// program that it executes: one that executes another program comes anew.
class Choice {
 public:
  // `options`: as find_processes() has left them. They outlive it.
  explicit Choice(const Options& options);
  // Those that have come since the last call, some at a time.
  std::vector<Target> look();
  // Whether nobody can come any more when those are gone that are there: all descend from ids.
  bool ends_with_the_last() const { return names_.empty() && !options_.names_group(); }
  const Options& options() const { return options_; }

 private:
  struct Known {
    uint64_t start = 0;
    std::string program;  // its auxiliary vector, in which each execve has other addresses
    bool operator==(const Known&) const = default;
  };
  std::vector<Target> chosen();
  const Options& options_;
  std::vector<std::string> names_;
  const std::string own_;                // the program of this process: its copies are not meant
  std::map<pid_t, Known> known_;         // who has come, and has not ended
  std::map<pid_t, std::string> others_;  // who has none of the names, by what it calls itself
};

}  // namespace mdl::inject
