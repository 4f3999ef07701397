// A thread's clock: the machine's counter less what hits have taken of the thread's time so far.
//
// It stands still while a hit runs. So all timers at a point read the same time, whatever the order of
// their code, and a timer that runs over a hit does not see it, however deep calls are nested. The block's
// header holds, as offsets:
//   kBlockTaken     what hits have taken, in ticks
//   kBlockAway      the part of it in which they were interrupted for so long that it was no CPU time
//   kBlockClock     what the clock showed at the last hit; stencils read the time here
//   kBlockBegan     what the counter showed when the hit began that runs now; less than that when none
//                   does, and then it tells whose request the last one was (arch::last_request)
//   kBlockCpuClock  the same as kBlockClock of the thread's CPU time, read when it is first asked for: until
//                   then with bit 62 set
//
// A hit whose code reads a clock reads the counter as the first thing and as the last. The time in between
// was taken. The time outside of the two is a constant, because the hit waits: for what the program has
// begun, before it reads the counter (so that is the program's), for its own code before it reads it again,
// and for all of it before it goes back. So nothing of it overlaps with the program, however little that does
// between two hits. The constant is measured at the attach; it is the same for a comparison of 2 ns and for
// long chains, to 3 %, where one that does not wait differs by half. A hit whose code reads no clock adds a
// constant, and waits for nothing.
//
// A hit that is interrupted takes longer, and that counts as well: interrupts and the scheduler come with
// time, so the program without hits would not have met them. (Where each interrupt ends in a hypervisor,
// they are 5 % of all time, and most of them meet a hit when hits are most of the time.) A hit of more
// than kLongestHit did not run all the while, so what it took is not all CPU time. Where it reads the CPU
// time, kLongestRead will do, and a second read tells what was (resident_clocks.inc). One of more than
// kLongestAway was stopped by somebody who meant the program, and counts as a usual one; so does one in
// which a signal handler had hits, because these have moved kBlockBegan: the handler's time is the
// program's.
//
// The clock never goes back, so that no timer does: where more was taken than time has passed, it stands until
// the counter has caught up. Time above kMostBehind is given back (mdl_resident_clock_behind). So errors of
// single hits even out, and those of many hits do not add up to a piece of the time that follows them.
// Predictions can be too large by any amount: a processor overlaps hits that wait for nothing.
//
// A signal handler that hits in the middle of this moves the clock on; the exchange then leaves it there, and
// nothing is given back, because the hit has taken more than kLongestBegin from its reading of the counter.
// One that comes before kBlockBegan is set makes the hit as long as the handler: the next one gives that back. More than
// kLongestHit of it counted as away, which is given back as well, or CPU times would stand for as long.
//
// All of these limits are in target_data.h, in ticks of 0.2 to 0.5 ns.
#pragma once

#include "runtime/arch/hit_time.h"
#include "runtime/arch/point.h"
#include "runtime/arch/x86_64/emitter.h"

namespace mdl::arch {

// rax and rdx, and in the beginning r10 are lost, and the flags.
inline constexpr image::Registers kHitTimeRegisters = 1u << rax | 1u << rdx | 1u << r10;

// rdx = the counter. In front of the search for the block.
void emit_read_counter(Emitter& e);
// The clock, from rdx, behind the search. `cpu`: the hit may ask for the CPU time.
void emit_hit_begins(Emitter& e, uint64_t resident, bool cpu);
// The facts that are known of a hit before it runs: how many words it saves on the stack; what its stencils
// and the routines that they call are predicted to take, in ticks; one of its requests.
struct KnownOfHit {
  size_t saved;
  double stencils, routines;
  uint32_t request;
  bool cpu;  // it may ask for the CPU time
};
// Where what it calls lies in the resident code.
uint64_t clock_behind_offset();
// As the last thing.
void emit_hit_ends(Emitter& e, const HitTime& time, const KnownOfHit& hit);
// Behind all else.
void emit_fence(Emitter& e);
// All of a hit that reads no clock.
void emit_plain_hit(Emitter& e, uint32_t ticks);

}  // namespace mdl::arch
