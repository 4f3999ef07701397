// Trampoline code on x86-64: finding the thread's block, saving and restoring, filling stencils.
//
// The block is found by hashing the thread pointer, which %fs:0 holds by the ABI (System V
// x86-64 psABI, thread-local storage). r11 ends as the block, r10 is scratch:
//     rdtsc; shl $32,%rdx; or %rax,%rdx                              where a clock is read (hit_time.h)
//     mov %fs:0,%r11; imul $K,%r11; shr $28,%r11; and $mask,%r11d    slot offset
//     movabs $directory,%t; add %t,%r11                              slot
//     mov %fs:0,%t; cmp %t,(%r11); jne slow                          ours?
//     mov 8(%r11),%r11                                               block
//     mov %fs:id,%t; cmp %t,8(%r11); jne slow                        still ours? (Lookup::thread_at)
// where t is a register that is dead anyway, else r10. Registers that are needed and must survive are kept in
// other dead registers (a move costs next to nothing), and pushed when there are none.
// Saving is plain pushes where nothing below the stack pointer is alive; elsewhere the red zone is
// stepped over.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "runtime/arch/description.h"
#include "runtime/arch/displacement.h"
#include "runtime/arch/point.h"
#include "runtime/arch/resident.h"
#include "runtime/arch/target_data.h"
#include "runtime/arch/windows.h"
#include "runtime/arch/x86_64/armed.h"
#include "runtime/arch/x86_64/counter_read.h"
#include "runtime/arch/x86_64/deferred.h"
#include "runtime/arch/x86_64/emitter.h"
#include "runtime/arch/x86_64/hit_time.h"
#include "runtime/arch/x86_64/track.h"

namespace mdl::arch {
namespace {

constexpr uint32_t kHash = 0x1e35a7bd;  // odd, positive as a sign-extended imm32
constexpr int kHashShift = 28;

constexpr image::Registers bit(Reg r) {
  return image::register_bit(r);
}

uint8_t rex(Reg reg, Reg rm) {
  return static_cast<uint8_t>(0x48 | (reg >= 8 ? 4 : 0) | (rm >= 8 ? 1 : 0));
}
uint8_t direct(Reg reg, Reg rm) {
  return static_cast<uint8_t>(0xc0 | (reg & 7) << 3 | (rm & 7));
}

void emit_move(Emitter& e, Reg from, Reg to) {
  e.bytes({rex(from, to), 0x89, direct(from, to)});
}  // mov from, to

void emit_load(Emitter& e, Reg to, uint8_t offset) {  // mov offset(%rsp), to
  e.bytes({rex(to, rax), 0x8b, static_cast<uint8_t>(0x44 | (to & 7) << 3), 0x24, offset});
}

void emit_thread_pointer(Emitter& e, Reg to) {  // mov %fs:0, to
  e.bytes({0x64, rex(to, rax), 0x8b, static_cast<uint8_t>(0x04 | (to & 7) << 3), 0x25, 0, 0, 0, 0});
}

void emit_lookup(Emitter& e, const Lookup& lookup, Reg scratch, std::vector<size_t>& slow) {
  emit_thread_pointer(e, r11);
  e.bytes({0x4d, 0x69, 0xdb}), e.imm32(kHash);                    // imul $K, %r11, %r11
  e.bytes({0x49, 0xc1, 0xeb, kHashShift});                        // shr $28, %r11
  e.bytes({0x41, 0x81, 0xe3}), e.imm32((lookup.slots - 1) * 16);  // and $mask, %r11d
  e.mov_imm64(scratch, lookup.directory);
  e.bytes({rex(scratch, r11), 0x01, direct(scratch, r11)});  // add scratch, %r11
  emit_thread_pointer(e, scratch);
  e.bytes({rex(scratch, r11), 0x39, static_cast<uint8_t>((scratch & 7) << 3 | 3)});  // cmp scratch, (%r11)
  slow.push_back(e.branch(kNotEqual));
  e.bytes({0x4d, 0x8b, 0x5b, 0x08});  // mov 8(%r11), %r11
  if (lookup.thread_at == 0) return;
  auto low = static_cast<uint8_t>((scratch & 7) << 3);
  e.bytes({0x64});  // mov %fs:id, scratch, 32 bits
  if (scratch >= 8) e.bytes({0x44});
  e.bytes({0x8b, static_cast<uint8_t>(0x04 | low), 0x25}), e.imm32(lookup.thread_at);
  e.bytes({rex(scratch, r11), 0x39, static_cast<uint8_t>(0x43 | low), kBlockThread});  // cmp scratch, 8(%r11)
  slow.push_back(e.branch(kNotEqual));
}

void put(Bytes& out, size_t at, uint64_t value, int size) {
  for (int i = 0; i < size; i++) out[at + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (8 * i));
}

// Where a stencil's `next` holes were emitted, to be pointed at the end of its group.
using NextFields = std::vector<std::pair<size_t, int64_t>>;

// Where a point's code is put, and what all its stencils share.
struct Place {
  Bytes& out;
  uint64_t address;  // at which out[0] will lie
  int64_t anomalies;
  uint64_t resident;
  bool keeps_hit_time;
  std::vector<PlacedStencil>& placed;
};

int64_t value_of(const plan::Hole& hole, const Piece* piece, int64_t guard, const Place& place) {
  switch (hole.kind) {
    case plan::HoleKind::cell:
      return piece->cells[hole.index];
    case plan::HoleKind::constant:
      return piece->constants[hole.index];
    case plan::HoleKind::guard:
      return guard;
    case plan::HoleKind::anomalies:
      return piece && piece->anomalies ? piece->anomalies : place.anomalies;
    case plan::HoleKind::symbol:
      return static_cast<int64_t>(piece->symbols[hole.index].address);
    case plan::HoleKind::symbol_left:
      return piece->symbols[hole.index].left;
    case plan::HoleKind::symbol_right:
      return piece->symbols[hole.index].right;
    case plan::HoleKind::routine: {
      const auto routine = static_cast<format::Routine>(hole.index);
      const bool clock = place.keeps_hit_time && routine == format::Routine::cpu;
      return static_cast<int64_t>(place.resident + (clock ? cpu_clock_offset() : routine_offset(routine)));
    }
    case plan::HoleKind::thread:
      return kBlockThread;
    case plan::HoleKind::next:
      break;
  }
  return 0;
}

void emit_stencil(const Place& place, const plan::Stencil& stencil, const Piece* piece, int64_t guard,
                  NextFields& next) {
  Bytes& out = place.out;
  size_t start = out.size();
  place.placed.push_back({&stencil, start});
  for (std::byte b : stencil.code) out.push_back(static_cast<uint8_t>(b));
  if (place.keeps_hit_time)
    for (uint32_t read : stencil.counter_reads)
      std::ranges::copy(kClockRead, out.begin() + static_cast<std::ptrdiff_t>(start + read));
  for (const plan::Hole& hole : stencil.holes) {
    size_t field = start + hole.offset;
    if (hole.kind == plan::HoleKind::next) {
      next.emplace_back(field, hole.addend);
      continue;
    }
    int64_t value = value_of(hole, piece, guard, place);
    if (plan::is_pc_relative(hole.kind)) value -= static_cast<int64_t>(place.address + field);
    put(out, field, static_cast<uint64_t>(value + hole.addend), hole.size);
  }
}

bool writes_one_of(const Piece& piece, std::span<const int64_t> flags) {
  for (size_t i = 0; i < piece.cells.size(); i++)
    if (piece.stencil->info.cells[i].writes &&
        std::find(flags.begin(), flags.end(), piece.cells[i]) != flags.end())
      return true;
  return false;
}

// Code that raises a flag or starts a timer notes whose frame is the outermost one: the one that finds it
// down. A signal handler of this thread may raise and lower the same at any instruction. One that comes
// between the note and the raise leaves its own frame noted, and another one of the same thread may have its
// frame at the same place later on, so
//   - code that lowers the outermost marks the note as over: no frame has an odd place. It is not forgotten,
//     because the place tells whether a frame has vanished (resident.S);
//   - code that has raised it notes the frame once more.

// Before something is raised: when it is down, this frame is the outermost. r10 is its place then, else 0.
// `depth`: from the stack pointer to the frame's return address.
void emit_raise(Bytes& out, const Raised& what, uint32_t depth) {
  Emitter e(out, 0);
  e.bytes({0x49, 0x83, 0xbb}), e.imm32(static_cast<uint32_t>(what.count)), e.bytes({0x00});  // cmpq $0, count
  e.bytes({0x41, 0xba}), e.imm32(0);                                                         // mov $0, %r10d
  e.bytes({0x75, 15});                                                          // jne over the next two
  e.bytes({0x4c, 0x8d, 0x94, 0x24}), e.imm32(depth);                            // lea depth(%rsp), %r10
  e.bytes({0x4d, 0x89, 0x93}), e.imm32(static_cast<uint32_t>(what.outermost));  // mov %r10, outermost(%r11)
}

// Behind that, with the same r10.
void emit_raised(Bytes& out, const Raised& what) {
  Emitter e(out, 0);
  e.bytes({0x4d, 0x85, 0xd2});                                                  // test %r10, %r10
  e.bytes({0x74, 7});                                                           // je over the next one
  e.bytes({0x4d, 0x89, 0x93}), e.imm32(static_cast<uint32_t>(what.outermost));  // mov %r10, outermost(%r11)
}

// In the outermost frame: after a flag was lowered, it is down; before a timer is stopped, this is its
// last stop.
void emit_lower(Bytes& out, const Raised& what, uint32_t depth) {
  Emitter e(out, 0);
  auto count = static_cast<uint32_t>(what.count), outermost = static_cast<uint32_t>(what.outermost);
  e.bytes({0x4c, 0x8d, 0x94, 0x24}), e.imm32(depth);               // lea depth(%rsp), %r10
  e.bytes({0x4d, 0x39, 0x93}), e.imm32(outermost);                 // cmp %r10, outermost(%r11)
  e.bytes({0x75, static_cast<uint8_t>(what.is_timer ? 29 : 19)});  // jne behind all this
  if (what.is_timer) {
    e.bytes({0x49, 0x83, 0xbb}), e.imm32(count), e.bytes({0x00});  // cmpq $0, count(%r11)
    e.bytes({0x74, 19});                                           // je behind all this
  }
  e.bytes({0x49, 0xc7, 0x83}), e.imm32(count), e.imm32(what.is_timer);  // movq $0 or $1, count(%r11)
  e.bytes({0x49, 0x83, 0x8b}), e.imm32(outermost), e.bytes({0x01});     // orq $1, outermost(%r11)
}

// Whether the stencil notes or looks up the call that this frame is.
bool is_about_frame(const Piece& piece) {
  return is_about_own_frame(*piece.stencil) ||
         std::ranges::any_of(piece.stencil->info.routines, [](format::Routine routine) {
           return routine == format::Routine::enter || routine == format::Routine::kept ||
                  routine == format::Routine::elapsed || routine == format::Routine::stayed;
         });
}

// Whether it finds its frame by the frame pointer.
bool needs_frame_pointer(const Piece& piece, const PointFrame& frame) {
  return frame.own && !frame.own->from_stack && is_about_own_frame(*piece.stencil);
}

// The target's registers that a piece reads.
image::Registers read_by(const Piece& piece, const PointFrame& frame) {
  return piece.stencil->read | (needs_frame_pointer(piece, frame) ? bit(rbp) : 0);
}

// General registers that a piece changes, but for what keeps its flag's frame.
image::Registers written_by(const Piece& piece) {
  return piece.stencil->written | (piece.tracks.empty() && !piece.keys ? 0 : kTrackRegisters);
}

// How the registers that a point's code needs are kept over it.
struct Saving {
  Reg scratch = r10;                       // for the lookup
  std::vector<std::pair<Reg, Reg>> moved;  // a register and the dead one that keeps it
  std::vector<Reg> pushed;
  bool flags = false;  // pushed last, through rax

  size_t bytes() const { return 8 * (pushed.size() + flags); }
  // The offset of pushed[i] from the stack pointer: at most 15 registers and the flags, so it fits.
  uint8_t offset(size_t i) const { return static_cast<uint8_t>(bytes() - 8 * (i + 1)); }
};

// Whether what the hit takes must be measured: it reads a clock, or calls what takes now longer, now less.
bool must_be_timed(const Piece& piece) {
  return !piece.stencil->counter_reads.empty() || !piece.stencil->info.routines.empty() || piece.keys ||
         std::ranges::any_of(piece.tracks, [](const Track& track) { return track.clock.has_value(); });
}

// In ticks.
double routines_take(std::span<const Piece> pieces, const HitTime& time) {
  double out = 0;
  for (const Piece& piece : pieces)
    for (format::Routine routine : piece.stencil->info.routines)
      out += format::info(routine).nanoseconds * time.per_ns;
  return out;
}

double stencils_take(std::span<const Piece> pieces, const HitTime& time) {
  double out = 0;
  for (const Piece& piece : pieces) out += piece.stencil->info.cycles * time.per_cycle / 100;
  return out;
}

// What resumes a frame may run whenever the frame runs: a call need not be armed for it, which a fiber may leave in one
// thread and come back from in another.
std::vector<Piece> some_of(std::span<const Piece> pieces, bool repeatable) {
  std::vector<Piece> out;
  std::ranges::copy_if(pieces, std::back_inserter(out),
                       [&](const Piece& piece) { return is_about_own_frame(*piece.stencil) == repeatable; });
  return out;
}

// The ticks of a hit that reads no clock: the constant and the prediction for its stencils.
uint32_t plain_ticks(std::span<const Piece> pieces, const HitTime& time) {
  return static_cast<uint32_t>(std::min(time.plain + stencils_take(pieces, time), double{kLongestHit}));
}

Saving plan_saving(std::span<const Piece> pieces, image::Registers live, image::Registers needed,
                   const PointFrame& frame) {
  Saving out;
  needed |= bit(r11);
  for (const Piece& piece : pieces) {
    needed |= written_by(piece);
    live |= read_by(piece, frame) & ~bit(r10) & ~bit(r11);  // a stencil may read what the function ignores
    if (!piece.raises.empty() || !piece.lowers.empty() || piece.waits ||
        !piece.stencil->info.routines.empty())
      needed |= bit(r10);
  }
  bool flags = live & image::kFlags;  // they are kept through rax
  out.flags = flags;
  image::Registers dead = ~live & 0xffff & ~bit(rsp) & ~needed;
  if (flags) dead &= ~bit(rax);
  auto take = [&]() -> std::optional<Reg> {
    if (dead == 0) return std::nullopt;
    auto first = static_cast<Reg>(__builtin_ctzll(dead));
    dead &= ~bit(first);
    return first;
  };
  if (needed & bit(r10)) {
    out.scratch = r10;
  } else if (auto free = take()) {
    out.scratch = *free;
  } else {
    needed |= bit(r10);
  }
  for (int i = 0; i < 16; i++) {
    auto reg = static_cast<Reg>(i);
    bool through_stack = flags && reg == rax;
    if (!through_stack && !(needed & live & bit(reg))) continue;
    std::optional<Reg> keeper = through_stack ? std::nullopt : take();
    if (keeper)
      out.moved.emplace_back(reg, *keeper);
    else
      out.pushed.push_back(reg);
  }
  return out;
}

// Pieces in order; a run of pieces under the same guards tests them once. Each finds the
// target's registers as they were: what one has written and a later one reads is fetched back.
class PieceWriter {
 public:
  PieceWriter(const Place& place, const plan::Stencil& guard, uint32_t depth, const Saving& saving,
              const PointFrame& frame)
      : place_(place), out_(place.out), guard_(guard), depth_(depth), saving_(saving), frame_(frame) {}

  // Registers that were lost before the first of them are fetched back, too.
  void write(std::span<const Piece> pieces, image::Registers lost) {
    fetch_back(lost, pieces);
    for (size_t i = 0; i < pieces.size();) {
      size_t end = i + 1;
      while (end < pieces.size() && !pieces[i].guards.empty() && pieces[end].guards == pieces[i].guards &&
             !writes_one_of(pieces[end - 1], pieces[i].guards))
        end++;
      NextFields to_end;
      for (int64_t flag : pieces[i].guards) {
        emit_stencil(place_, guard_, nullptr, flag, to_end);
        skip_if_lowered(flag, to_end);
      }
      for (; i < end; i++) {
        if (frame_.deferral && pieces[i].waits)
          unless_it_waits(pieces[i]);
        else
          one(pieces[i]);
        fetch_back(written_by(pieces[i]), pieces.subspan(i + 1));
      }
      land(to_end);
    }
  }

 private:
  void unless_it_waits(const Piece& piece) {
    Emitter e(out_, place_.address + out_.size());
    const Waiting waiting = emit_defer(e, piece, *frame_.deferral, depth_, place_.resident,
                                       piece.anomalies ? piece.anomalies : place_.anomalies);
    for (size_t field : waiting.run) e.fill(field, e.here());
    one(piece);
    e.fill(waiting.behind, e.here());
    waited_.insert(waited_.end(), piece.lowers.begin(), piece.lowers.end());
  }

  // A flag that waits is up still, but to the code behind it is what it is behind its lowering: down, in the
  // outermost frame.
  void skip_if_lowered(int64_t flag, NextFields& to_end) {
    auto waited = std::find_if(waited_.begin(), waited_.end(),
                               [&](const Raised& what) { return !what.is_timer && what.count == flag; });
    if (waited == waited_.end()) return;
    Emitter e(out_, place_.address + out_.size());
    to_end.emplace_back(emit_is_outermost(e, *waited, depth_), -4);
  }

  void one(const Piece& piece) {
    NextFields own;
    Emitter e(out_, 0);
    // Where r10 cannot keep it, the stack does.
    const bool stays = piece.raises.size() == 1 && piece.lowers.empty() && !piece.keys &&
                       !(piece.stencil->written & bit(r10)) && piece.stencil->info.routines.empty();
    uint32_t depth = depth_;
    for (const Raised& what : piece.raises) {
      emit_raise(out_, what, depth);
      if (!stays) e.push(r10), depth += 8;
    }
    for (const Raised& what : piece.lowers)
      if (what.is_timer) emit_lower(out_, what, depth);
    if (piece.keys) emit_keys_before(out_, *piece.keys);
    const bool about_frame = is_about_frame(piece);
    if (about_frame) {
      emit_place(piece, depth + (piece.keys ? pushed_for(*piece.keys) : 0));
      e.push(r10);
    }
    emit_stencil(place_, *piece.stencil, &piece, 0, own);
    land(own);
    if (about_frame) {
      e.bytes({0x48, 0xc7, 0x44, 0x24, 0xf8, 0, 0, 0, 0});  // movq $0, -8(%rsp): the return address
      e.bytes({0x48, 0x8d, 0x64, 0x24, 0x08});              // lea 8(%rsp), %rsp
    }
    if (piece.keys) emit_keys_behind(out_, *piece.keys, depth);
    for (size_t i = piece.raises.size(); i-- > 0;) {
      if (!stays) e.pop(r10);
      emit_raised(out_, piece.raises[i]);
    }
    for (const Raised& what : piece.lowers)
      if (!what.is_timer) emit_lower(out_, what, depth_);
    for (const Track& track : piece.tracks) emit_track(out_, track);
  }

  // r10: the place of the frame's return address, for the routine. `depth`: to that of the point's.
  void emit_place(const Piece& piece, uint32_t depth) {
    Emitter e(out_, 0);
    const OwnFrame* own = frame_.own && is_about_own_frame(*piece.stencil) ? &*frame_.own : nullptr;
    if (own && !own->from_stack) {
      e.bytes({0x4c, 0x8d, 0x95}), e.imm32(static_cast<uint32_t>(own->offset));  // lea offset(%rbp), %r10
      return;
    }
    const int32_t to = static_cast<int32_t>(depth) + (own ? own->offset - frame_.distance : 0);
    e.bytes({0x4c, 0x8d, 0x94, 0x24}), e.imm32(static_cast<uint32_t>(to));  // lea to(%rsp), %r10
  }

  void fetch_back(image::Registers written, std::span<const Piece> later) {
    image::Registers read = 0;
    for (const Piece& piece : later) read |= read_by(piece, frame_);
    image::Registers lost = written & read & ~bit(r10) & ~bit(r11);
    Emitter e(out_, 0);
    for (auto [reg, keeper] : saving_.moved)
      if (lost & bit(reg)) emit_move(e, keeper, reg);
    for (size_t i = 0; i < saving_.pushed.size(); i++)
      if (lost & bit(saving_.pushed[i])) emit_load(e, saving_.pushed[i], saving_.offset(i));
  }

  void land(const NextFields& fields) {
    for (auto [field, addend] : fields)
      put(out_, field, static_cast<uint64_t>(static_cast<int64_t>(out_.size() - field) + addend), 4);
  }

  const Place& place_;
  Bytes& out_;
  const plan::Stencil& guard_;
  uint32_t depth_;
  const Saving& saving_;
  const PointFrame& frame_;
  std::vector<Raised> waited_;  // what pieces before this one may have left up
};

}  // namespace

uint32_t home_slot(uint64_t thread_pointer, uint32_t slots) {
  return static_cast<uint32_t>((thread_pointer * kHash) >> kHashShift) / 16 % slots;
}

SlowPath emit_point(Bytes& out, uint64_t address, std::span<const Piece> pieces, const plan::Stencil& guard,
                    image::Registers live, const Lookup& lookup, int64_t anomalies_offset,
                    std::vector<PlacedStencil>& placed, const PointFrame& frame) {
  Emitter e(out, address);
  if (frame.arming == Arming::jump) live |= bit(rdi);  // the buffer
  const HitTime& time = lookup.hit_time;
  const bool timed = time.kept && (frame.reads_clock || frame.ends_deferred || frame.deferral ||
                                   std::ranges::any_of(pieces, must_be_timed));
  const image::Registers lost = timed ? kHitTimeRegisters : 0;
  const image::Registers own = armed_registers(frame.arming) | (frame.ends_deferred ? bit(r10) : 0) | lost;
  Saving saving = plan_saving(pieces, live, own, frame);
  bool flags = saving.flags;
  const bool red_zone = !frame.below_is_dead;
  if (red_zone) e.bytes({0x48, 0x8d, 0x64, 0x24, 0x80});  // lea -128(%rsp), %rsp
  for (auto [reg, keeper] : saving.moved) emit_move(e, reg, keeper);
  for (Reg reg : saving.pushed) e.push(reg);
  if (flags) {
    e.bytes({0x9f});              // lahf: SF ZF AF PF CF
    e.bytes({0x0f, 0x90, 0xc0});  // seto %al
    e.push(rax);
    // rax was pushed first: read it back, a stencil may want the returned value.
    emit_load(e, rax, saving.offset(0));
  }
  SlowPath slow;
  if (timed) emit_read_counter(e);
  emit_lookup(e, lookup, saving.scratch, slow.fields);
  slow.found = e.here();
  const bool may_read_cpu =
      frame.ends_deferred || frame.deferral || std::ranges::any_of(pieces, [](const Piece& piece) {
        return !piece.stencil->info.routines.empty() || !piece.tracks.empty();
      });
  if (timed) emit_hit_begins(e, lookup.slow_path, may_read_cpu);
  auto depth =
      static_cast<uint32_t>(static_cast<int32_t>(saving.bytes() + (red_zone ? 128 : 0)) + frame.distance);
  std::vector<size_t> not_armed = emit_arming(e, frame, depth, anomalies_offset);
  Place place{out, e.here() - out.size(), anomalies_offset, lookup.slow_path, time.kept, placed};
  const auto write = [&](std::span<const Piece> some, image::Registers before) {
    PieceWriter(place, guard, depth, saving, frame).write(some, before);
    // The return address of a stencil's call of a routine does not stay, as with call_own.
    if (std::ranges::any_of(some, [](const Piece& piece) { return !piece.stencil->info.routines.empty(); }))
      e.bytes({0x48, 0xc7, 0x44, 0x24, 0xf8, 0, 0, 0, 0});  // movq $0, -8(%rsp)
  };
  const std::vector<Piece> always =
      frame.arming == Arming::test ? some_of(pieces, true) : std::vector<Piece>();
  if (always.empty()) {
    write(pieces, lost);
  } else {
    const std::vector<Piece> others = some_of(pieces, false);
    write(others, lost);
    image::Registers before = lost;
    for (const Piece& piece : others) before |= written_by(piece);
    for (size_t field : std::exchange(not_armed, {})) e.fill(field, e.here());
    write(always, before);
  }
  for (size_t field : not_armed) e.fill(field, e.here());
  if (frame.ends_deferred) emit_end_deferred(e, depth, lookup.slow_path);
  if (timed)
    emit_hit_ends(e, time,
                  {saving.bytes() / 8, stencils_take(pieces, time), routines_take(pieces, time),
                   pieces.empty() ? 0 : pieces.front().request, may_read_cpu});
  if (time.kept && !timed) emit_plain_hit(e, plain_ticks(pieces, time));
  if (flags) {
    e.pop(rax);
    e.bytes({0x04, 0x7f});  // add $0x7f, %al: OF again, when al was 1
    e.bytes({0x9e});        // sahf
  }
  for (size_t i = saving.pushed.size(); i-- > 0;) e.pop(saving.pushed[i]);
  for (auto [reg, keeper] : saving.moved) emit_move(e, keeper, reg);
  if (red_zone) e.bytes({0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0});  // lea 128(%rsp), %rsp
  if (timed) emit_fence(e);
  return slow;
}

Bytes as_planned(const plan::Stencil& stencil, std::span<const uint8_t> placed) {
  Bytes out(placed.begin(), placed.end());
  for (uint32_t read : stencil.counter_reads)
    std::ranges::copy(kCounterRead, out.begin() + static_cast<std::ptrdiff_t>(read));
  return out;
}

void emit_slow_path(Bytes& out, uint64_t address, const SlowPath& from, const Lookup& lookup) {
  Emitter e(out, address);
  for (size_t field : from.fields) e.fill(field, e.here());
  e.call_own(lookup.slow_path);
  e.jump(from.found);
}

void emit_jump(Bytes& out, uint64_t address, uint64_t target) {
  Emitter(out, address).jump(target);
}

std::optional<uint64_t> branch_target(uint64_t at, std::span<const std::byte> bytes) {
  if (bytes.size() < kMachine.jump_size) return std::nullopt;
  const auto opcode = static_cast<uint8_t>(bytes[0]);
  if (opcode != 0xe9 && opcode != 0xe8) return std::nullopt;  // jmp, call rel32
  int32_t distance = 0;
  std::memcpy(&distance, bytes.data() + 1, sizeof distance);
  return at + kMachine.jump_size + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

void emit_call(Bytes& out, uint64_t address, uint64_t target) {
  Emitter(out, address).call_own(target);
}

}  // namespace mdl::arch
