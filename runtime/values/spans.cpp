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
    cells_.push_back({i, cell.offset, cell.base});
  }
  bases_.resize(bases_end_ - bases_begin_);
  again_.resize(end_ - begin_);
}

// All at once first; the few that changed in between one by one.
bool Spans::read(const image::Memory& memory, uint64_t address, std::span<const std::byte> block,
                 const std::function<void(size_t cell, int64_t value)>& take) {
  if (!memory.read(address + bases_begin_, bases_) || !memory.read(address + begin_, again_)) return false;
  for (const Cell& cell : cells_) {
    const uint64_t span = word(block, cell.offset);
    if (span == word(again_, cell.offset - begin_))
      take(cell.index, span_value(span, word(bases_, cell.base - bases_begin_)));
    else if (!retry(memory, address, cell, take))
      return false;
  }
  return true;
}

bool Spans::retry(const image::Memory& memory, uint64_t address, const Cell& cell,
                  const std::function<void(size_t cell, int64_t value)>& take) {
  for (int i = 0; i < kTries; ++i) {
    std::byte before[8], base[8], after[8];
    if (!memory.read(address + cell.offset, before) || !memory.read(address + cell.base, base) ||
        !memory.read(address + cell.offset, after))
      return false;
    if (word(before, 0) == word(after, 0)) {
      take(cell.index, span_value(word(before, 0), word(base, 0)));
      return true;
    }
  }
  unsettled_.insert(cell.index);
  take(cell.index, 0);
  return true;
}

}  // namespace mdl::values
