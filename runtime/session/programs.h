// Programs that followed processes execute (--run --follow-fork), from the thread that is about to execute
// one up to the process that is held at the entry of its new program.
//
//   a thread waits in front of its execve (Follow::asking)
//   it is traced up to the stop behind that           process/exec_watch.h
//   the program runs its loader, untraced             process/arrival.h
//   it waits at its entry, is stopped, and handed out to be measured
//
// None of these waits for another: one may execute, load or fork what it likes meanwhile.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "runtime/process/arrival.h"
#include "runtime/process/exec_watch.h"
#include "runtime/session/heartbeat.h"

namespace mdl::inject {

class Programs {
 public:
  explicit Programs(Heartbeat& heart) : heart_(heart) {}  // which outlives it

  bool watches(pid_t process) const;
  bool watches_any() const { return !watches_.empty(); }
  // Watches a thread that waits for it, in `code` of a process that has `memory`; true when it is watched,
  // and may be let go on.
  bool watch(pid_t tid, pid_t process, const process::TargetMemory& memory,
             std::span<const image::Range> code);
  // Whether the thread is watched already: it waits a second time, in a signal handler.
  bool watch_again(pid_t tid);

  struct Arrived {
    pid_t pid;
    process::TargetMemory memory;  // by which it is held
  };
  struct News {
    std::vector<pid_t> stayed;    // processes whose execve failed, or is not followed
    std::vector<pid_t> executed;  // those that run another program now
    std::vector<Arrived> arrived;
  };
  // To be called often. Programs that cannot be followed are reported on standard error.
  News look();
  bool empty() const { return watches_.empty() && arrivals_.empty(); }
  // Lets all go, unmeasured.
  void let_go();

 private:
  struct Loading {
    process::Arrival arrival;
    std::chrono::steady_clock::time_point since;
  };
  void begin(pid_t pid);
  bool look_at(Loading& loading, News& news);

  Heartbeat& heart_;
  std::list<process::ExecWatch> watches_;
  std::list<Loading> arrivals_;
};

// "warning: process N executes PROGRAM and is not measured: ..."
void say_unmeasured(pid_t pid, const std::string& why);

}  // namespace mdl::inject
