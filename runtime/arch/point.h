// The code of a point in a trampoline (patch/trampoline.h): what it is made of, and the function that emits
// it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "format/kinds.h"
#include "runtime/arch/bytes.h"
#include "runtime/arch/hit_time.h"
#include "runtime/image/instruction.h"
#include "runtime/plan/plan.h"

namespace mdl::arch {

// Where the trampoline of a point finds the thread's block (docs/events.md, "Thread blocks").
struct Lookup {
  uint64_t directory = 0;  // address of the first slot, 16 bytes each: thread pointer, block
  uint32_t slots = 0;      // a power of two
  uint64_t slow_path = 0;  // address of the resident code
  // Where, behind the thread pointer, the C library keeps the thread's id. Compared with the one in the
  // block at each hit, so that a thread pointer that is used again gets a fresh block; 0 = not compared.
  uint32_t thread_at = 0;
  HitTime hit_time = {};
};
// From a block's kBlockBegan: whose Piece::request the last hit was; none while one runs, and where that is
// not known.
constexpr std::optional<uint32_t> last_request(uint64_t began) {
  const uint64_t number = ~began;
  return number < UINT64_C(0x7fffffff) ? std::optional(static_cast<uint32_t>(number)) : std::nullopt;
}
// In kBlockCpuClock: it is not that of the hit that runs.
inline constexpr uint64_t kCpuStale = uint64_t{1} << 62;
// The slot at which the search for a thread pointer begins: what the emitted code computes.
uint32_t home_slot(uint64_t thread_pointer, uint32_t slots);

// The clock of a timer: of its kind, with its event.
struct TimerClock {
  format::CellKind kind = format::CellKind::wall_timer;
  format::Event event = format::Event::minor_faults;
};

// The code that follows code which writes a flag (focus::Track).
struct Track {
  int64_t flag = 0;  // byte offsets in the block
  int64_t span = 0;
  int64_t base = 0;
  // Where the base is a timer, the clock of it; then resident code does what is to be done: the addresses of
  // its routine and of what it knows of the span.
  std::optional<TimerClock> clock = {};
  uint64_t routine = 0, entry = 0;
};

// A flag or a timer that a function's entry raises and its exits lower. Its own words are `count`, and
// `outermost`: the stack pointer of the outermost frame that raised it. When that frame ends, the count
// goes to zero, whatever frames in between vanished.
struct Raised {
  int64_t count = 0;  // byte offsets in the block
  int64_t outermost = 0;
  // A timer's stencil does more than count: it must see its last stop. A flag is just set to zero.
  bool is_timer = false;
};

// The code that follows code which may change keys (focus::KeyTable).
struct Keys {
  std::vector<int64_t> keys;           // byte offsets in the block
  int64_t change = 0;                  // likewise
  uint64_t table = 0;                  // its address
  uint64_t routine = 0;                // of the resident code that does it
  bool balanced = false;               // the frame that raises a key is the one that lowers it
  std::optional<int64_t> caller = {};  // the offset of a key that is the return address where the code stands
  std::optional<int64_t> amount = {};  // of code that adds to a key's total: the offset of what it adds
};

// One piece of code at a point: a stencil with its holes' values.
struct Piece {
  const plan::Stencil* stencil = nullptr;
  std::vector<int64_t> cells;  // byte offsets in the block, for StencilInfo::cells
  std::vector<int64_t> constants;
  std::vector<int64_t> guards;  // byte offsets of flags
  std::vector<Raised> raises;   // what the stencil raises at an entry,
  std::vector<Raised> lowers;   // or lowers at an exit
  std::vector<Track> tracks = {};
  std::span<const plan::SymbolValue> symbols = {};  // for StencilInfo::symbols
  std::optional<Keys> keys = {};
  // For a piece that lowers one cell and does nothing else: the cell's byte offset in the block. It can wait
  // at a tail jump (Deferral). 0 = it cannot.
  uint32_t waits = 0;
  uint32_t request = 0;  // one of those that it is for
  // Where an anomaly of this piece is counted: a byte offset in the block, 0 = with all that are not told
  // apart.
  int64_t anomalies = 0;
};

// Where a call has come back to, when a branch leads there, too: the call arms, what follows it tests
// (docs/events.md, "Calls"). Each thread's block has an area of kArmedBytes for its armed calls, the areas
// in the order of the blocks.
struct ArmedCalls {
  uint64_t blocks = 0, stride = 0;  // of the blocks: resident/layout.h
  uint64_t area = 0;                // of the first block
};
inline constexpr uint64_t kArmedBytes = uint64_t{1} << 16;  // 8 for a call that has not come back
enum class Arming : uint8_t {
  none,
  arm,     // in front of the call
  test,    // behind it: the point's code runs only when it was armed
  catch_,  // at the entry of __cxa_begin_catch, and
  jump,    // of longjmp: calls that vanish are forgotten
};

// Cells that a tail jump leaves raised for the return of the function that it leads to (docs/events.md,
// "Tail calls"). A thread's block lists what waits: for each {the place of the frame's return address, the
// byte offset of the cell}. Only the outermost frame that raised a cell waits; an inner one lowers it at
// once.
struct Deferral {
  // A word that the jump goes through, and what it must hold: otherwise nothing waits, which is an anomaly.
  uint64_t slot = 0;  // 0 = it is direct
  uint64_t value = 0;
  uint64_t unbound = 0;  // or this: the dynamic linker will fill it with that value at the jump
};

// The frame of the function itself, at one of its calls: its return address lies so far from the stack pointer, else from
// the frame pointer.
struct OwnFrame {
  bool from_stack = true;
  int32_t offset = 0;
  bool operator==(const OwnFrame&) const = default;
};
// Whether a stencil is about that frame, wherever it stands.
inline bool is_about_own_frame(const plan::Stencil& stencil) {
  return std::ranges::any_of(stencil.info.routines, [](format::Routine routine) {
    return routine == format::Routine::pause || routine == format::Routine::resume;
  });
}

// The frame that a point is about.
struct PointFrame {
  int32_t distance = 0;  // from the stack pointer to where its return address lies
  Arming arming = Arming::none;
  uint64_t returns_to = 0;             // test: the address behind the call
  const ArmedCalls* calls = nullptr;   // where there is any arming
  const Deferral* deferral = nullptr;  // of a tail jump at which pieces wait
  bool ends_deferred = false;          // of a return: what waits for it is lowered
  bool reads_clock = false;            // as if a stencil did, where hit times are kept
  // Nothing below the stack pointer is alive. Else the code stays clear of the red zone.
  bool below_is_dead = false;
  std::optional<OwnFrame> own = {};  // where it is not the one that the point is about
};

// Emits the code of one point: save what is live, find the block, run the pieces, restore.
// Guards that stand in front of several pieces in a row are tested once where nothing
// between writes them. `live` are the registers whose values must survive.
// `address` is where the next byte of `out` will lie. The slow path that it needs is emitted
// later, behind the trampoline's fast path, with emit_slow_path on the same `out`.
struct SlowPath {
  std::vector<size_t> fields;  // of the branches to it, in `out`
  uint64_t found = 0;          // where it goes on
};
// Where a stencil was put, so that it can be verified again as it is.
struct PlacedStencil {
  const plan::Stencil* stencil = nullptr;
  size_t at = 0;  // in `out`
};
// The filled code of a stencil as it would be where hit times are not kept.
Bytes as_planned(const plan::Stencil& stencil, std::span<const uint8_t> placed);
SlowPath emit_point(Bytes& out, uint64_t address, std::span<const Piece> pieces, const plan::Stencil& guard,
                    image::Registers live, const Lookup& lookup, int64_t anomalies_offset,
                    std::vector<PlacedStencil>& placed, const PointFrame& frame = {});
void emit_slow_path(Bytes& out, uint64_t address, const SlowPath& from, const Lookup& lookup);

}  // namespace mdl::arch
