#include "runtime/values/spans.h"

#include <algorithm>
#include <cstring>

namespace mdl::values {
namespace {

constexpr int kTries = 8;

uint64_t word(std::span<const std::byte> bytes, size_t at) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

Spans::Spans(const BlockLayout& layout) {
  for (size_t i = 0; i < layout.cells.size(); ++i) {
    const CellPlace& cell = layout.cells[i];
    if (cell.kind != format::CellKind::span_) continue;
    if (cells_.empty()) bases_begin_ = cell.base, begin_ = cell.offset;
    bases_begin_ = std::min(bases_begin_, cell.base), bases_end_ = std::max(bases_end_, cell.base + 8);
    begin_ = std::min(begin_, cell.offset), end_ = std::max(end_, cell.offset + 8);
    const ClockOf of = {format::info(cell.base_kind).clock, cell.event};
    const auto clock = std::ranges::find(clocks_, of, &BaseClock::of);
    cells_.push_back({i, cell.offset, cell.base, static_cast<size_t>(clock - clocks_.begin())});
    if (clock == clocks_.end()) clocks_.push_back({of, {}});
  }
  bases_.resize(bases_end_ - bases_begin_);
  again_.resize(end_ - begin_);
}

std::optional<uint64_t> Spans::base_value(const Cell& cell, uint64_t word) const {
  const BaseClock& clock = clocks_[cell.clock];
  if (clock.of.clock == format::CellClock::none || static_cast<int64_t>(word) >= 0) return word;
  if (!clock.now) return std::nullopt;
  return word + *clock.now;
}

// All at once first; the few that changed in between one by one.
bool Spans::read(const image::Memory& memory, uint64_t address, std::span<const std::byte> block,
                 const Clock& clock, const Take& take) {
  for (BaseClock& one : clocks_)
    if (one.of.clock != format::CellClock::none) one.now = clock(one.of);
  if (!memory.read(address + bases_begin_, bases_) || !memory.read(address + begin_, again_)) return false;
  for (const Cell& cell : cells_) {
    const uint64_t span = word(block, cell.offset);
    const auto base = base_value(cell, word(bases_, cell.base - bases_begin_));
    if (span != word(again_, cell.offset - begin_)) {
      if (!retry(memory, address, cell, take)) return false;
    } else {
      take(cell.index, base || !is_open(span) ? span_value(span, base.value_or(0)) : 0);
    }
  }
  return true;
}

bool Spans::retry(const image::Memory& memory, uint64_t address, const Cell& cell, const Take& take) {
  for (int i = 0; i < kTries; ++i) {
    std::byte before[8], base[8], after[8];
    if (!memory.read(address + cell.offset, before) || !memory.read(address + cell.base, base) ||
        !memory.read(address + cell.offset, after))
      return false;
    if (word(before, 0) != word(after, 0)) continue;
    const auto value = base_value(cell, word(base, 0));
    const uint64_t span = word(before, 0);
    take(cell.index, value || !is_open(span) ? span_value(span, value.value_or(0)) : 0);
    return true;
  }
  unsettled_.insert(cell.index);
  take(cell.index, 0);
  return true;
}

}  // namespace mdl::values
