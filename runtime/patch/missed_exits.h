// Flags and timers that are up for frames that are not there: exits of functions that were missed, because
// the analysis of the code did not find them, or frames vanished in a way that nobody sees.
//
// All threads are stopped. A flag that is up was raised by a frame whose return address lies where the flag's
// second word says. A wrong suspicion is worse than none, so an exit counts as missed only in a thread whose
// stack can be walked to its end, on which no frame of the flag's functions is, and when one of these shows
// that the frame has ended:
//   - at its place a walked frame of another function has its return address;
//   - what lies there is no address of code: a frame that is alive, on whatever stack, has its return
//   address;
//   - the place is below the stack pointer, on the stack with which the thread began.
// All else is unclear: a coroutine that does not run has its frames on no walked stack, an exception that is
// on its way has taken frames away and is not caught yet, a run-time system may have copied a stack
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/image.h"
#include "runtime/patch/stack_scan.h"
#include "runtime/process/target_memory.h"
#include "runtime/process/threads.h"
#include "runtime/resident/journal.h"

namespace mdl::patch {

struct MissedExit {
  const resident::RaisedCell* cell = nullptr;  // in the journal
  uint64_t entries = 0;                        // of frames that are not there, over all threads
  uint64_t threads = 0;
};

struct ExitCheck {
  bool done = false;  // false: nothing was looked at
  std::vector<MissedExit> missed;
  std::vector<MissedExit> elsewhere;        // among the unclear: a coroutine that does not run may be there
  uint64_t up = 0;                          // flags and timers that were up, of all threads
  std::map<std::string, uint64_t> unclear;  // of these, by the reason why nothing can be said
};

// Prepared while the process runs. The journal, the image and the memory outlive it.
class MissedExits {
 public:
  MissedExits(const resident::Journal& journal, const image::Image& image,
              const process::TargetMemory& memory);

  // The missed exits of threads that are stopped and whose code is instrumented, or was until a moment ago.
  // Only reads.
  ExitCheck find(const process::Threads& threads, const std::vector<image::Mapping>& mappings,
                 WalkedStacks& stacks) const;

 private:
  struct CodeRange {
    image::Range range;
    uint32_t function = 0;  // index into Journal::functions
    uint64_t reach = 0;     // where the last range that begins here or before ends
  };

  friend class ThreadExits;
  std::vector<uint32_t> functions_on(const image::Stack& stack) const;  // sorted

  const resident::Journal& journal_;
  const image::Image& image_;
  const process::TargetMemory& memory_;
  std::vector<CodeRange> code_;  // by address
  uint64_t stack_start_ = 0;
  bool copies_stacks_ = false;
};

// Whether any flag or timer is up: where none is, a check finds nothing. Threads may run.
bool any_raised(const resident::Journal& journal, const image::Memory& memory);

// The same for a process that goes on, or waits at its end: stops its threads for that. An error when they
// cannot be stopped, when the session is not there any more, or when another looks at the process for longer
// than `patience`.
Result<ExitCheck> check_exits(pid_t pid, const resident::Journal& journal,
                              const process::TargetMemory& memory,
                              std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace mdl::patch
