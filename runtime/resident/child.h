// A fork's child has a copy of its parent's data. Its own count begins at the fork: so the copy must lose
// what the parent had counted before the child counts anything.
//
// A child tells by a thread's id: the kernel writes the child's into the word that the C library keeps, and
// the thread's block holds the parent's. So its first hit leads to resident code (resident.S,
// mdl_resident_admission), which waits until the process that the data name is its own. Until then none of
// its threads writes to a block, and admit() has all the time to make the data what they are after an
// insertion. The frames of the thread that forked are alive in the child: its flags stay up, and timers that
// ran begin anew.
#pragma once

#include "base/result.h"
#include "runtime/process/target_memory.h"
#include "runtime/resident/journal.h"

namespace mdl::resident {

enum class Admitted {
  yes,
  missed,   // it has counted already: it waited in vain
  foreign,  // a child that the C library did not make: its threads are taken for its parent's
};

// Makes the data of a child its own and lets it count. `journal`: of the session. An error when the child has
// ended or cannot be read.
Result<Admitted> admit(pid_t pid, const Journal& journal, const process::TargetMemory& memory);

// A process that is no child, but runs in the memory of one that is measured: it counts as a thread of that.
void let_sharer_pass(pid_t pid, const Journal& journal, const process::TargetMemory& memory);

// A child that is not measured: what it counts is for nobody, and it does not wait.
void let_miss(pid_t pid, const Journal& journal, const process::TargetMemory& memory);

// The words of the block of a thread that has forked, as the child begins with it. `now`: the wall clock.
void begin_anew(const Journal& journal, std::span<uint64_t> block, uint64_t thread, uint64_t now);

}  // namespace mdl::resident
