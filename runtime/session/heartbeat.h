// Threads that wait for us in followed processes wait for as long as we live: a word that changes says so
// (target_data.h, kNewsBeat; process/arrival.h). A thread of its own changes it, since the session may be
// busy with another process for seconds. The session says for how long it may be: one that stands still, as
// behind a reader that does not read, must not hold the target's processes. To write into a process takes locks and
// many calls: where there has been no sign of a thread that waits for some seconds, it is only looked for one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/process/target_memory.h"
#include "runtime/resident/journal.h"

namespace mdl::inject {

class Heartbeat {
 public:
  Heartbeat();  // beats for a moment
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Beats for so long from now on, and no longer unless it is told again.
  void go_on_for(std::chrono::seconds time);
  // The same, at the beginning of a turn in which the session looks at all processes. `waits`: somebody may wait who
  // has been seen before.
  void begin_turn(std::chrono::seconds time, bool waits);
  // The news of a process of this family, until drop(owner). `session` outlives that.
  void add(const void* owner, pid_t pid, const process::TargetMemory& memory,
           const resident::Journal& session);
  // A word of a process that is on its way to its entry.
  void add(const void* owner, const process::TargetMemory& memory, uint64_t word);
  void drop(const void* owner);

 private:
  struct Place {
    const void* owner;
    pid_t pid;
    process::TargetMemory memory;
    uint64_t word;
    const resident::Journal* session;  // nullptr: not in the news
  };
  struct Signs {  // of a family's threads that wait
    std::vector<uint64_t> counts;
    uint64_t turn = 0;
    std::chrono::steady_clock::time_point when;  // when these were seen to change, or somebody waited
  };
  bool may_wait(const resident::Journal& session);
  void beat_all(bool in_any_case);

  std::mutex mutex_;
  std::condition_variable ended_;
  std::list<Place> places_;
  std::map<const resident::Journal*, Signs> signs_;
  uint64_t turns_ = 0;
  uint64_t beat_ = 0;
  std::chrono::steady_clock::time_point until_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mdl::inject
