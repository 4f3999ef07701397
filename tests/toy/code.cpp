// The code that is put into a program: windows, moved instructions, points.
//
// A point finds the block of the thread, of which there is one, keeps what is alive of the registers that it
// needs below the stack pointer, tests guards and runs stencils. What only other kinds of cells than counters
// need (timers, keys, spans, calls that are armed or wait) is left out: toy plans have counters.
#include <algorithm>

#include "runtime/arch/description.h"
#include "runtime/arch/displacement.h"
#include "runtime/arch/errno_location.h"
#include "runtime/arch/point.h"
#include "runtime/arch/resident.h"
#include "runtime/arch/target_data.h"
#include "runtime/arch/windows.h"
#include "tests/toy/encoding.h"

namespace mdl::arch {
namespace {

using image::register_bit;
using toy::Assembler;
using toy::kNone;

toy::Word word_of(const image::Instruction& in) {
  return toy::word_at(in.bytes.data());
}

void set_immediate(Bytes& out, size_t instruction, uint64_t value) {
  const auto immediate = static_cast<int32_t>(value);
  std::memcpy(&out[instruction + 4], &immediate, sizeof immediate);
}

// The fields are filled but for `next`, whose instructions are noted.
void emit_stencil(Bytes& out, const plan::Stencil& stencil, const Piece* piece, int64_t guard,
                  int64_t anomalies, std::vector<size_t>& next, std::vector<PlacedStencil>& placed) {
  const size_t start = out.size();
  placed.push_back({&stencil, start});
  for (const std::byte one : stencil.code) out.push_back(static_cast<uint8_t>(one));
  for (const plan::Hole& hole : stencil.holes) {
    const size_t instruction = start + hole.offset - 4;
    if (hole.kind == plan::HoleKind::next)
      next.push_back(instruction);
    else
      set_immediate(out, instruction,
                    static_cast<uint64_t>(
                        hole.addend + (hole.kind == plan::HoleKind::cell       ? piece->cells[hole.index]
                                       : hole.kind == plan::HoleKind::constant ? piece->constants[hole.index]
                                       : hole.kind == plan::HoleKind::guard    ? guard
                                                                               : anomalies)));
  }
}

}  // namespace

Bytes as_planned(const plan::Stencil&, std::span<const uint8_t> placed) {
  return {placed.begin(), placed.end()};
}

uint32_t home_slot(uint64_t, uint32_t) {
  return 0;
}

SlowPath emit_point(Bytes& out, uint64_t address, std::span<const Piece> pieces, const plan::Stencil& guard,
                    image::Registers live, const Lookup& lookup, int64_t anomalies_offset,
                    std::vector<PlacedStencil>& placed, const PointFrame&) {
  Assembler a(out, address);
  image::Registers needed = register_bit(toy::kBlock) | register_bit(toy::kOther) | guard.written;
  for (const Piece& piece : pieces) needed |= piece.stencil->written;
  std::vector<uint8_t> kept;
  for (uint8_t number = 0; number < toy::kRegisters; ++number)
    if (needed & live & register_bit(number)) kept.push_back(number);
  const bool flags = live & image::kFlags;
  const auto place = [](size_t index) { return -8 * static_cast<int32_t>(index + 1); };
  for (size_t i = 0; i < kept.size(); ++i) a.put({toy::store, kept[i], toy::kStack, kNone, place(i)});
  if (flags) {
    a.put({toy::get_flags, toy::kOther});
    a.put({toy::store, toy::kOther, toy::kStack, kNone, place(kept.size())});
  }
  SlowPath slow;
  a.put({toy::set, toy::kBlock, 0, kNone, static_cast<int32_t>(lookup.directory)});
  a.put({toy::load, toy::kOther, toy::kBlock, kNone, 0});
  a.put({toy::compare_both, toy::kOther, toy::kThread});
  slow.fields.push_back(out.size());
  a.put({toy::branch, toy::not_equal});
  a.put({toy::load, toy::kBlock, toy::kBlock, kNone, 8});
  slow.found = a.here();
  for (const Piece& piece : pieces) {
    std::vector<size_t> behind;
    for (const int64_t flag : piece.guards)
      emit_stencil(out, guard, nullptr, flag, anomalies_offset, behind, placed);
    emit_stencil(out, *piece.stencil, &piece, 0, anomalies_offset, behind, placed);
    for (const size_t instruction : behind)
      set_immediate(out, instruction, out.size() - instruction - toy::kSize);
  }
  if (flags) {
    a.put({toy::load, toy::kOther, toy::kStack, kNone, place(kept.size())});
    a.put({toy::set_flags, toy::kOther});
  }
  for (size_t i = 0; i < kept.size(); ++i) a.put({toy::load, kept[i], toy::kStack, kNone, place(i)});
  return slow;
}

// The only thread claims the first slot, whose block is ready.
void emit_slow_path(Bytes& out, uint64_t address, const SlowPath& from, const Lookup&) {
  Assembler a(out, address);
  for (const size_t instruction : from.fields)
    set_immediate(out, instruction, out.size() - instruction - toy::kSize);
  a.put({toy::store, toy::kThread, toy::kBlock, kNone, 0});
  a.put({toy::load, toy::kBlock, toy::kBlock, kNone, 8});
  a.lead(toy::jump, from.found);
}

bool can_displace(const image::Instruction& in) {
  return in.flow != image::Flow::call && in.flow != image::Flow::call_indirect &&
         in.flow != image::Flow::stop && in.flow != image::Flow::system_call &&
         word_of(in).operation != toy::jump_far;
}
bool emit_displaced(Bytes& out, uint64_t address, const image::Instruction& in) {
  toy::Word word = word_of(in);
  const bool leads = in.target != 0 || word.operation == toy::address;
  const int64_t distance = int64_t{word.immediate} + static_cast<int64_t>(leads ? in.address - address : 0);
  word.immediate = static_cast<int32_t>(distance);
  Assembler(out, address).put(word);
  return word.immediate == distance;
}
size_t emit_inverted_branch(Bytes& out, uint64_t address, const image::Instruction& branch) {
  Assembler(out, address).put({toy::branch, static_cast<uint8_t>(word_of(branch).a ^ 1)});
  return out.size() - toy::kSize;
}
void fill_branch(Bytes& out, uint64_t, size_t field) {
  set_immediate(out, field, out.size() - field - toy::kSize);
}
void emit_jump(Bytes& out, uint64_t address, uint64_t target) {
  Assembler(out, address).lead(toy::jump, target);
}
void emit_call(Bytes& out, uint64_t address, uint64_t target) {
  Assembler a(out, address);
  a.put({toy::move, toy::kScratch, toy::kLink});
  a.lead(toy::call, target);
  a.put({toy::move, toy::kLink, toy::kScratch});
}
// It pushes nothing; what stores or loads may fault.
std::optional<uint32_t> pushed_by(const image::Instruction& in) {
  const uint8_t operation = word_of(in).operation;
  const bool plain = operation >= toy::set && operation <= toy::address;
  return plain && !(in.touches & register_bit(toy::kStack)) ? std::optional(0u) : std::nullopt;
}
bool can_turn(const image::Instruction& call) {
  return call.flow == image::Flow::call;
}
bool emit_turned(Bytes& out, uint64_t address, const image::Instruction& call) {
  emit_jump(out, address, call.target);
  return true;
}

Bytes window_jump(uint64_t at, uint64_t target) {
  Bytes out;
  emit_jump(out, at, target);
  return out;
}
Bytes window_call(uint64_t at, uint32_t, uint64_t target) {
  Bytes out;
  Assembler(out, at).lead(toy::call, target);
  return out;
}
Bytes window_short_jump(uint64_t at, uint64_t target) {
  return window_jump(at, target);
}
bool short_jump_reaches(uint64_t at, uint64_t target) {
  return target - at + kMachine.reach < 2 * kMachine.reach;
}
// A jump is written whole.
image::Range punned_targets(uint64_t, uint32_t, std::span<const uint8_t>) {
  return {};
}
Bytes far_jump(uint64_t target) {
  Bytes out;
  Assembler(out, 0).put({toy::jump_far});
  out.resize(2 * toy::kSize);
  std::memcpy(&out[toy::kSize], &target, sizeof target);
  return out;
}
std::optional<uint64_t> branch_target(uint64_t at, std::span<const std::byte> bytes) {
  if (bytes.size() < toy::kSize) return std::nullopt;
  const toy::Word word = toy::word_at(bytes.data());
  if (word.operation != toy::jump && word.operation != toy::call) return std::nullopt;
  return at + toy::kSize + static_cast<uint64_t>(int64_t{word.immediate});
}
std::optional<uint64_t> short_jump_target(uint64_t at, std::span<const std::byte> bytes) {
  return branch_target(at, bytes);
}
size_t call_prefixes(std::span<const std::byte>) {
  return 0;
}

// Points claim their block by themselves, so all that is resident are routines that return at once.
Bytes resident_code(const ResidentParameters&, std::span<const TimerClock>, std::span<const Track>,
                    std::span<const uint64_t>) {
  Bytes out;
  Assembler(out, 0).put({toy::ret});
  return out;
}
uint64_t cpu_clock_offset() {
  return 0;
}
uint64_t keys_offset() {
  return 0;
}
uint64_t span_offset() {
  return 0;
}
uint64_t span_entry_offset(size_t, size_t) {
  return 0;
}
uint64_t routine_offset(format::Routine) {
  return 0;
}
std::optional<ErrnoLocation> errno_location(std::span<const std::byte>, uint64_t) {
  return std::nullopt;
}
uint64_t hook_offset(Hook) {
  return 0;
}

}  // namespace mdl::arch
