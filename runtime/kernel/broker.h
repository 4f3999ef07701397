// Two processes instead of one. What has privilege, the broker, makes the calls of this room for the worker, which
// reads everything that others have made (ELF, DWARF, frames, xz, journals, plans, JSON, /proc) and has no privilege.
// docs/security.md says against whom, and what each of the two can do.
//
// The worker is the process that was started: signals, standard files and the exit status are its own. The broker is its
// child, and is killed when it ends. A thread that the broker has stopped then goes on, as it does when a tracer ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mdl::kernel {

// Makes the output file of this text, and hands out its descriptor (output/sink.h).
using Publish = std::function<Result<int>(std::string_view)>;

// Writes a line of the audit, with this text behind what the broker itself knows of the process. An error only where no
// process may be changed without a line.
using Log = std::function<Result<void>(pid_t process, std::string_view action, std::string_view text)>;
// Ends those that hold the lock on a process, and says which they were, a line for each.
using BreakLock = std::function<Result<std::string>(pid_t)>;

// Judges a process that started at this time, one that has come since: true where it may be touched from now on.
enum class As { child, peer, member };  // found by its descent, by a name, or in a group that was named
using Admit = std::function<bool(pid_t, uint64_t start, As)>;
// Those that have come since the last call and are admitted; and why others are not, a line for each.
using Newcomers = std::function<std::vector<pid_t>(const Admit&, std::string& refused)>;

struct Trust {
  std::vector<pid_t> named = {};     // the processes that are measured; none when one is started
  std::vector<pid_t> children = {};  // descendants of these, that are to be known though their parents end
  std::string command = {};          // what may be started, as command_words() makes it; "" = nothing
  std::string folder = {};           // and where
  bool any_command = false;          // or what the worker says, once and before anything else was touched
  std::chrono::milliseconds patience{30'000};  // with a worker that lets threads stand and asks nothing
  Publish publish = {};
  Log log = {};
  BreakLock break_lock = {};  // of those that are named; none where the operator has not asked for it
  Newcomers newcomers = {};
  std::vector<int> of_worker = {};  // descriptors that are closed in the broker: they end with the worker
};

// True where this process may do more than a plain user: it is root's, or has capabilities.
bool has_privileges();

// Once, before anything is parsed that others have made, and while there is one thread. Behind it this process is confined (confine.h). A
// program under the sanitizers is not, since it takes what the filter forbids.
Result<void> separate(Trust trust);

// The broker, from its first to its last step, for the worker at the channel's other end. By worker.cpp.
class Channel;
[[noreturn]] void be_broker(Channel& channel, pid_t worker);

// By the broker, as it was told.
Result<int> publish(std::string_view text);
Result<void> log(pid_t process, std::string_view action, std::string_view text);
Result<std::string> break_lock(pid_t pid);
std::vector<pid_t> newcomers(std::string& refused);

}  // namespace mdl::kernel
