#include "runtime/resident/spare_cells.h"

#include <fmt/format.h>

#include <algorithm>

namespace mdl::resident {
namespace {

using Group = format::CellGroup;

// Where cells of a group may lie. Samples, sums and spans are treated alike when threads end and when a
// process forks, so they share their room.
image::Range room_for(const Layout& layout, Group group) {
  switch (group) {
    case Group::flags:
      return {kBlockHeader, layout.timers};
    case Group::timers:
      return {layout.timers, layout.calls};
    case Group::calls:
      return {layout.calls, layout.sums};
    case Group::samples:
    case Group::sums:
    case Group::spans:
      return {layout.sums, layout.anomalies ? layout.anomalies : layout.cells_end};
    case Group::extremes:
      return {layout.cells_end, layout.extremes_end};
    case Group::keys:
    case Group::entries:
      break;
  }
  return {layout.extremes_end, layout.deferred ? layout.deferred : layout.stride};
}

class Room {
 public:
  void take(uint64_t offset, format::CellKind kind) {
    taken_.push_back({offset, offset + format::info(kind).room});
  }
  std::optional<uint64_t> find(const image::Range& in, uint64_t room) {
    std::ranges::sort(taken_, {}, &image::Range::start);
    uint64_t at = in.start;
    for (const image::Range& taken : taken_) {
      if (taken.end <= at) continue;
      if (taken.start >= at + room) break;
      at = taken.end;
    }
    if (at + room > in.end) return std::nullopt;
    return at;
  }

 private:
  std::vector<image::Range> taken_;
};

}  // namespace

SpareCells spare_cells_for(const plan::Plan& plan, bool distributions, bool any_plan) {
  constexpr uint32_t kHistograms = 4;
  const auto uses = [&](auto is) {
    return any_plan || std::ranges::any_of(plan.stencils, [&](const plan::Stencil& stencil) {
             return std::ranges::any_of(stencil.info.cells, is, &format::CellUse::kind);
           });
  };
  const auto has = [&](format::CellKind kind) {
    return uses([=](format::CellKind one) { return one == kind; });
  };
  const auto by_key = [](const auto& one) { return !one.empty(); };
  SpareCells out{.flags = 64, .timers = 32, .words = 128};
  if (distributions && has(format::CellKind::histogram))
    out.words += kHistograms * format::info(format::CellKind::histogram).room / sizeof(uint64_t);
  if (uses([](format::CellKind kind) { return format::info(kind).group == Group::extremes; }))
    out.extremes = 16;
  if (any_plan || std::ranges::any_of(plan.manifest.metrics, by_key, &format::Metric::keys) ||
      std::ranges::any_of(plan.manifest.constraints, by_key, &format::Constraint::key_cells))
    out.keys = 16;
  if (has(format::CellKind::entries)) out.entries = 16;
  return out;
}

Result<Layout> change_cells(const Layout& before, std::span<const format::CellKind> kinds,
                            std::span<const focus::CellSlot> cells,
                            std::span<const std::optional<uint32_t>> kept) {
  Layout out = before;
  Room room;
  for (size_t i = 0; i < kinds.size(); i++) room.take(before.cells[i], kinds[i]);
  out.cells.resize(cells.size());
  for (size_t i = 0; i < cells.size(); i++) {
    if (kept[i]) {
      out.cells[i] = before.cells[*kept[i]];
      continue;
    }
    const format::CellKindInfo& kind = format::info(cells[i].kind);
    auto at = room.find(room_for(before, kind.group), kind.room);
    if (!at)
      return Error{fmt::format(
          "the blocks of the threads have no room left for '{}' (a {}){}", cells[i].label, kind.name,
          cells[i].kind == format::CellKind::histogram
              ? ": ask for it by key, as `latency F by function`, or begin the first one with --share"
              : "")};
    room.take(*at, cells[i].kind);
    out.cells[i] = static_cast<uint32_t>(*at);
  }
  out.timer_cells.assign((out.calls - out.timers) / kTimerSize, kSpareCell);
  for (size_t i = 0; i < cells.size(); i++)
    if (format::info(cells[i].kind).group == Group::timers)
      out.timer_cells[(out.cells[i] - out.timers) / kTimerSize] = static_cast<focus::CellId>(i);
  return out;
}

std::vector<image::Range> words_of(const Layout& layout, uint32_t offset, format::CellKind kind) {
  std::vector<image::Range> out = {{offset, offset + uint64_t{format::info(kind).room}}};
  if (!format::is_raised(kind) || layout.anomalies == 0) return out;
  const uint64_t anomalies = layout.anomalies_of(offset);
  out.push_back({anomalies, anomalies + 2 * sizeof(uint64_t)});
  return out;
}

Result<void> forget_calls(const Layout& layout, uint64_t data, std::span<const uint32_t> cells,
                          const process::TargetMemory& memory) {
  constexpr uint64_t kWord = sizeof(uint64_t), kCellBits = 20, kBucket = uint64_t{1} << kBucketShift;
  const uint64_t table = data + layout.running();
  uint64_t threads = 0;
  const Error failed{"cannot forget the calls that run"};
  if (cells.empty() || !layout.times_calls) return {};
  if (!memory.read(table + kRunningLast, std::as_writable_bytes(std::span(&threads, 1)))) return failed;
  if (threads == 0) return {};  // no call was entered yet
  std::vector<uint64_t> words((kRunningSize - kRunningBuckets) / kWord);
  if (!memory.read(table + kRunningBuckets, std::as_writable_bytes(std::span(words)))) return failed;
  const uint64_t nothing = 0;
  for (size_t i = 0; i < words.size(); i++) {
    if (i * kWord % kBucket >= kBucketKeys || words[i] == 0) continue;
    const uint64_t cell = words[i] & ((uint64_t{1} << kCellBits) - 1);  // as .Lfind_bucket makes the key
    if (std::ranges::none_of(cells, [&](uint32_t offset) { return offset / 16 == cell; })) continue;
    if (!memory.write(table + kRunningBuckets + i * kWord, std::as_bytes(std::span(&nothing, 1))))
      return failed;
  }
  return {};
}

Result<void> clear_words(const Layout& layout, uint64_t data, const std::vector<image::Range>& words,
                         const process::TargetMemory& memory) {
  std::vector<uint64_t> directory(layout.slots * 2);
  if (!memory.read(data + layout.directory(), std::as_writable_bytes(std::span(directory))))
    return Error{"cannot read the session's data"};
  std::vector<uint64_t> blocks = {layout.overflow_block(), layout.ended_block(), layout.taken_block()};
  for (uint64_t slot = 0; slot < layout.slots; slot++)
    if (directory[slot * 2] != 0) blocks.push_back(layout.block(slot));
  for (const image::Range& range : words) {
    const std::vector<std::byte> zeros(range.end - range.start);
    for (const uint64_t block : blocks)
      if (!memory.write(data + block + range.start, zeros)) return Error{"cannot write the session's data"};
  }
  return {};
}

}  // namespace mdl::resident
