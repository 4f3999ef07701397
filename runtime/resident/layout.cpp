#include "runtime/resident/layout.h"

#include <algorithm>
#include <bit>

#include "runtime/arch/description.h"

namespace mdl::resident {
namespace {

constexpr uint64_t kLinePair = 128;
using arch::kPage;
using Group = format::CellGroup;
constexpr uint64_t kMaxRegion = uint64_t{1} << 30;  // of address space; slots shrink before it is passed
// What a region takes is missing in a program that limits its addresses later, as a server does in the processes of its
// clients. So large blocks are fewer, but as many as most programs have threads.
constexpr uint64_t kUsualRegion = uint64_t{60} << 20;
constexpr uint32_t kMinSlots = 256, kUsualSlots = 4096, kManySlots = 1024, kManyEnded = 256, kFewEnded = 64;
constexpr size_t kMostAnomalyWords = 4096;  // 32 KiB of each block

// The assembly's view of the same cells.
#define X(id, name, type, size, room, group, clock, update, feature) \
  static_assert(Group::group != Group::timers || room == kTimerSize);
MDL_CELL_KINDS(X)
#undef X
static_assert(kActiveEntries * kActiveSize + 8 == 328);
static_assert(kHistogramCounts + 8 * format::kHistogramBuckets == 22024);
static_assert((uint64_t{1} << kRunningBits << kBucketShift) + kRunningBuckets == kRunningSize);
static_assert(kHistogramShift == format::kHistogramBits && kHistogramTop == format::kHistogramRange);

}  // namespace

uint64_t Layout::running() const {
  return (ring() + ended * stride + kPage - 1) & ~(kPage - 1);
}

uint64_t Layout::size() const {
  return running() + (times_calls ? kRunningSize : 0);
}

size_t anomaly_pairs(std::span<const focus::CellSlot> cells) {
  return 2 * static_cast<size_t>(std::ranges::count_if(
                 cells, [](const focus::CellSlot& cell) { return format::is_raised(cell.kind); }));
}

Layout make_layout(std::span<const focus::CellSlot> cells, size_t threads, bool defers, size_t function_words,
                   const SpareCells& spare, uint64_t most) {
  Layout out;
  const size_t pairs = anomaly_pairs(cells) + 2 * (size_t{spare.flags} + spare.timers);
  uint64_t offset = kBlockHeader;
  uint64_t ends[format::kCellGroups] = {};
  out.cells.resize(cells.size());
  out.times_calls = spare.entries != 0 || std::ranges::any_of(cells, [](const focus::CellSlot& cell) {
                      return cell.kind == format::CellKind::entries;
                    });
  const auto room = [](format::CellKind kind, uint32_t cells) {
    return uint64_t{cells} * format::info(kind).room;
  };
  for (int i = 0; i < format::kCellGroups; i++) {
    const auto group = static_cast<Group>(i);
    if (group == Group::extremes) {
      size_t words = pairs + function_words;
      if (words > kMostAnomalyWords) words = pairs;
      if (words > kMostAnomalyWords) words = 0;
      if (words) out.anomalies = offset, offset += words * sizeof(uint64_t), out.anomalies_end = offset;
      out.cells_end = offset;
    }
    for (size_t cell = 0; cell < cells.size(); cell++) {
      const format::CellKindInfo& kind = format::info(cells[cell].kind);
      if (kind.group != group) continue;
      out.cells[cell] = static_cast<uint32_t>(offset);
      offset += kind.room;
      if (group == Group::timers) out.timer_cells.push_back(static_cast<focus::CellId>(cell));
    }
    if (group == Group::flags) offset += room(format::CellKind::flag, spare.flags);
    if (group == Group::timers) {
      offset += uint64_t{spare.timers} * kTimerSize;
      out.timer_cells.resize(out.timer_cells.size() + spare.timers, kSpareCell);
    }
    if (group == Group::spans) offset += uint64_t{spare.words} * sizeof(uint64_t);
    if (group == Group::extremes) offset += room(format::CellKind::minimum, spare.extremes);
    if (group == Group::keys) offset += room(format::CellKind::keys, spare.keys);
    if (group == Group::entries) offset += room(format::CellKind::entries, spare.entries);
    ends[i] = offset;
  }
  const auto end_of = [&](Group group) { return ends[static_cast<size_t>(group)]; };
  out.timers = end_of(Group::flags);
  out.calls = end_of(Group::timers);
  out.sums = end_of(Group::calls);
  out.extremes_end = end_of(Group::extremes);
  if (defers) out.deferred = offset, offset += kDeferredBytes;
  out.stride = (offset + kLinePair - 1) & ~(kLinePair - 1);
  uint64_t floor = std::bit_ceil(std::clamp<uint64_t>(threads * 4, kMinSlots, kMostSlots));
  out.slots = static_cast<uint32_t>(std::max<uint64_t>(floor, kUsualSlots));
  out.ended = kMostEnded;
  const auto is_large = [&] { return out.size() > kUsualRegion; };
  while (is_large() && out.ended > kManyEnded) out.ended /= 2;
  while (is_large() && out.slots > std::max<uint64_t>(floor, kManySlots)) out.slots /= 2;
  while (out.size() > std::min(most, kMaxRegion)) {
    if (out.ended > kFewEnded)
      out.ended /= 2;
    else if (out.slots > floor)
      out.slots /= 2;
    else if (out.ended > 1 && out.size() > kMaxRegion)
      out.ended /= 2;
    else
      break;
  }
  return out;
}

arch::Raised raised_cell(const Layout& layout, focus::CellId cell, format::CellKind kind) {
  int64_t at = layout.cells[cell];
  if (kind == format::CellKind::flag) return {at, at + 8, false};
  return {at + 8, at + 16, true};
}

std::vector<uint64_t> empty_directory(const Layout& layout, uint64_t base) {
  std::vector<uint64_t> out(layout.slots * 2);
  for (uint64_t i = 0; i < layout.slots; i++) out[i * 2 + 1] = base + layout.block(i);
  return out;
}

uint32_t find_slot(std::span<const uint64_t> directory, uint64_t thread_pointer) {
  auto slots = static_cast<uint32_t>(directory.size() / 2);
  uint32_t home = arch::home_slot(thread_pointer, slots);
  for (uint32_t i = 0; i < slots; i++) {
    uint32_t slot = (home + i) % slots;
    if (directory[slot * 2] == thread_pointer || directory[slot * 2] == 0) return slot;
  }
  return slots;
}

}  // namespace mdl::resident
