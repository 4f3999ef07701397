// The resident code with its parameters: resident.S holds the instructions.
#include "runtime/arch/resident.h"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <array>

#include "runtime/arch/x86_64/deferred.h"

extern "C" const uint8_t mdl_resident_begin[], mdl_resident_exit[], mdl_resident_exec[], mdl_resident_prctl[],
    mdl_resident_syscall[], mdl_resident_clone[], mdl_resident_catch[], mdl_resident_jump[],
    mdl_resident_vfork[], mdl_resident_spawn[], mdl_resident_landing[], mdl_resident_thread_end[],
    mdl_resident_cpu_clock[], mdl_resident_clock_behind[], mdl_resident_parameters[], mdl_resident_keys[],
    mdl_resident_span[], mdl_resident_defer[], mdl_resident_end_deferred[], mdl_resident_end[];

#define X(id, name, feature, nanoseconds) extern "C" const uint8_t mdl_resident_##id[];
MDL_ROUTINES(X)
#undef X

namespace mdl::arch {
namespace {

constexpr size_t kMostEvents = 16;  // room behind .Levents
constexpr uint32_t kFxsaveBytes = 512;
constexpr uint64_t kSpanBytes = 16;  // {flag, span, base, clock}: resident_vectors.inc
constexpr uint64_t kNoClock = static_cast<uint64_t>(-3);

constexpr uint64_t kEventOffsets[] = {
#define X(id, name, alias, offset, more) offset | uint64_t{more} << 32,
    MDL_EVENTS(X)
#undef X
};
static_assert(std::size(kEventOffsets) <= kMostEvents);

// The registers beyond the general ones: with XSAVE where the kernel has enabled it (CPUID 1, ecx bit 27),
// whose area has the size in ebx of CPUID 0xd for what is enabled now; else with FXSAVE.
struct ExtendedState {
  uint64_t bytes = kFxsaveBytes;
  uint64_t xsave = 0;
};
ExtendedState extended_state() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  ExtendedState out;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return out;
  if (!__get_cpuid_count(0xd, 0, &a, &b, &c, &d) || b < kFxsaveBytes + 64) return out;
  return {b, 1};
}

// As .Lclock of resident.S wants it.
uint64_t clock_number(const TimerClock& timer) {
  switch (timer.kind) {
    case format::CellKind::event_timer:
      return static_cast<uint64_t>(timer.event);
    case format::CellKind::process_timer:
      return static_cast<uint64_t>(-2);
    default:
      return static_cast<uint64_t>(-1);
  }
}

// Times 2^32.
uint64_t ns_per_tick(const ResidentParameters& p) {
  if (p.ticks_per_second == 0) return 0;
  return static_cast<uint64_t>(1e9 / static_cast<double>(p.ticks_per_second) * 0x1p32);
}

uint64_t offset_of(const uint8_t* label) {
  return static_cast<uint64_t>(label - mdl_resident_begin);
}

}  // namespace

Bytes resident_code(const ResidentParameters& p, std::span<const TimerClock> timers,
                    std::span<const Track> spans, std::span<const uint64_t> tables) {
  const uint64_t fixed = static_cast<uint64_t>(mdl_resident_end - mdl_resident_begin);
  ExtendedState state = extended_state();
  std::vector<uint64_t> words = {p.header,
                                 p.directory,
                                 p.directory_bytes,
                                 p.overflow_block,
                                 p.ended_block,
                                 p.taken_block,
                                 p.ring,
                                 p.ring_entries,
                                 p.stride,
                                 p.timers,
                                 p.calls,
                                 p.sums,
                                 p.cells_end,
                                 p.extremes_end,
                                 p.news,
                                 p.thread_at,
                                 p.running,
                                 state.bytes,
                                 state.xsave,
                                 fixed + timers.size() * 8,
                                 spans.size() * kSpanBytes,
                                 fixed + timers.size() * 8 + spans.size() * kSpanBytes,
                                 tables.size() * 8,
                                 p.deferred,
                                 p.anomalies,
                                 p.hit_time.kept ? ns_per_tick(p) : 0,
                                 ns_per_tick(p),
                                 static_cast<uint64_t>(p.errno_at),
                                 std::size(kEventOffsets)};
  words.insert(words.end(), std::begin(kEventOffsets), std::end(kEventOffsets));
  words.resize(words.size() + kMostEvents - std::size(kEventOffsets));
  for (const TimerClock& timer : timers) words.push_back(clock_number(timer));
  Bytes out(mdl_resident_begin, mdl_resident_parameters);
  for (uint64_t word : words)
    for (int i = 0; i < 8; i++) out.push_back(static_cast<uint8_t>(word >> (8 * i)));
  for (const Track& track : spans)
    for (uint64_t word :
         {static_cast<uint64_t>(track.flag), static_cast<uint64_t>(track.span),
          static_cast<uint64_t>(track.base), track.clock ? clock_number(*track.clock) : kNoClock})
      for (int i = 0; i < 4; i++) out.push_back(static_cast<uint8_t>(word >> (8 * i)));
  for (uint64_t table : tables)
    for (int i = 0; i < 8; i++) out.push_back(static_cast<uint8_t>(table >> (8 * i)));
  return out;
}

uint64_t defer_offset() {
  return offset_of(mdl_resident_defer);
}

uint64_t end_deferred_offset() {
  return offset_of(mdl_resident_end_deferred);
}

uint64_t cpu_clock_offset() {
  return offset_of(mdl_resident_cpu_clock);
}

uint64_t clock_behind_offset() {
  return offset_of(mdl_resident_clock_behind);
}

uint64_t keys_offset() {
  return offset_of(mdl_resident_keys);
}

uint64_t span_offset() {
  return offset_of(mdl_resident_span);
}

uint64_t span_entry_offset(size_t timers, size_t index) {
  return offset_of(mdl_resident_end) + timers * 8 + index * kSpanBytes;
}

uint64_t hook_offset(Hook hook) {
  switch (hook) {
    case Hook::exit:
      return offset_of(mdl_resident_exit);
    case Hook::exec:
      return offset_of(mdl_resident_exec);
    case Hook::prctl:
      return offset_of(mdl_resident_prctl);
    case Hook::syscall:
      return offset_of(mdl_resident_syscall);
    case Hook::clone:
      return offset_of(mdl_resident_clone);
    case Hook::catch_:
      return offset_of(mdl_resident_catch);
    case Hook::jump:
      return offset_of(mdl_resident_jump);
    case Hook::end:
      return offset_of(mdl_resident_thread_end);
    case Hook::vfork:
      return offset_of(mdl_resident_vfork);
    case Hook::landing:
      return offset_of(mdl_resident_landing);
    case Hook::spawn:
      return offset_of(mdl_resident_spawn);
    case Hook::none:
      break;
  }
  return 0;
}

uint64_t routine_offset(format::Routine routine) {
  static const uint8_t* const kRoutines[] = {
#define X(id, name, feature, nanoseconds) mdl_resident_##id,
      MDL_ROUTINES(X)
#undef X
  };
  return offset_of(kRoutines[static_cast<size_t>(routine)]);
}

}  // namespace mdl::arch
