// The code that lies in the target once, for all trampolines: claims blocks, keeps keys and spans, waits at
// the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/arch/bytes.h"
#include "runtime/arch/hit_time.h"
#include "runtime/arch/point.h"

namespace mdl::arch {

// The resident code (runtime/arch/<target>/resident.S): position independent, the search for a block at its
// start.
struct ResidentParameters {
  uint64_t header = 0;  // address of the data's header (resident/layout.h)
  uint64_t directory = 0;
  uint64_t directory_bytes = 0;
  uint64_t overflow_block = 0;
  uint64_t ended_block = 0;   // what did not fit into the ring, added up
  uint64_t taken_block = 0;   // what the injector has taken from the ring: only it writes there
  uint64_t ring = 0;          // of ended threads' blocks
  uint64_t ring_entries = 0;  // a power of two
  uint64_t stride = 0;
  uint64_t timers = 0, calls = 0, sums = 0, cells_end = 0;  // offsets in a block; flags begin it
  uint64_t extremes_end = 0;                                // they begin at cells_end
  uint64_t news = 0;                                        // where forks are followed: of children
  uint64_t thread_at = 0;                                   // as in Lookup
  uint64_t running = 0;   // address of the table of the calls that run, where there is one
  uint64_t deferred = 0;  // offset in a block of the list of Deferral, 0 = there is none
  uint64_t anomalies =
      0;                  // likewise of {vanished, other} of each flag and timer, 0 = they are not told apart
  HitTime hit_time = {};  // likewise
  uint64_t ticks_per_second = 0;
  int64_t errno_at = 0;  // from the thread pointer, where code asks for it (errno_place.h)
};
// `timers`: as they lie in a block. `spans`: all that are kept, to be closed where frames vanish; `tables`:
// addresses of key tables, likewise.
Bytes resident_code(const ResidentParameters&, std::span<const TimerClock> timers = {},
                    std::span<const Track> spans = {}, std::span<const uint64_t> tables = {});
uint64_t cpu_clock_offset();  // in it, of what does the routine `cpu` where hit times are kept
uint64_t keys_offset();       // in it, of the routine for Keys::routine
uint64_t span_offset();       // of the routine for Track::routine
// The offset of its knowledge of a span, by the index in `spans`.
uint64_t span_entry_offset(size_t timers, size_t index);
// Where a stencil's routine begins in it.
uint64_t routine_offset(format::Routine routine);
// The hooks that a function's entry, or its returns, can have, and where in the resident code the routine of each
// begins. All keep every register and flag.
enum class Hook : uint8_t {
  none,
  exit,   // _exit: a process that ends waits for its last values to be read
  exec,   // execve, where forks are followed: likewise, and for its program to be followed
  prctl,  // prctl and syscall: in a process that puts itself under a seccomp filter, or has its system calls
          // come back to it as SIGSYS, nothing makes a system call any more
  syscall,
  clone,    // a thread that begins with its maker's thread pointer is noted: both count in one block
  catch_,   // __cxa_begin_catch and its like: frames below the one that calls it have vanished
  jump,     // longjmp(buffer, ...): frames below the buffer's stack pointer vanish
  end,      // __call_tls_dtors, where a thread ends: likewise; a thread without a block stays without
  vfork,    // a return of vfork in the parent: likewise; the child, which ran as this thread, is gone
  spawn,    // a return of posix_spawn: likewise, and those on a stack that is not there any more
  landing,  // _Unwind_SetIP(context, address): frames below the one that is to go on there vanish
};
// Where it is in its function.
constexpr format::PointKind point_of(Hook hook) {
  return hook == Hook::vfork || hook == Hook::spawn ? format::PointKind::return_ : format::PointKind::entry;
}
uint64_t hook_offset(Hook hook);

}  // namespace mdl::arch
