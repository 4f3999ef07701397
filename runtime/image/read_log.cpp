#include "runtime/image/read_log.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/image/block_memory.h"
#include "runtime/image/image.h"

namespace mdl::image {
namespace {

constexpr uint64_t kMostAtOnce = 1 << 20;  // bytes

bool is_same_in(const Range& range, uint64_t step, const Memory& one, const Memory& other) {
  std::vector<std::byte> a(range.end - range.start), b(a.size());
  const bool has_one = one.read(range.start, a), has_other = other.read(range.start, b);
  if (has_one && has_other) return a == b;
  if (a.size() <= step) return has_one == has_other;
  for (uint64_t at = range.start; at < range.end; at += step)
    if (!is_same_in({at, std::min(at + step, range.end)}, step, one, other)) return false;
  return true;
}

// Words of 4 bytes are distances, with a sign.
std::optional<uint64_t> place_at(uint64_t address, unsigned width, uint64_t added, const Memory& memory) {
  int64_t value = 0;
  int32_t distance = 0;
  if (!memory.read(address, width == sizeof distance ? std::as_writable_bytes(std::span(&distance, 1))
                                                     : std::as_writable_bytes(std::span(&value, 1))))
    return std::nullopt;
  return added + static_cast<uint64_t>(width == sizeof distance ? distance : value);
}

bool leads_to_same(uint64_t address, unsigned width, uint64_t added, const Memory& one, const Memory& other,
                   llvm::function_ref<bool(uint64_t)> is_code) {
  const auto a = place_at(address, width, added, one), b = place_at(address, width, added, other);
  return a == b || (a && b && !is_code(*a) && !is_code(*b));
}

}  // namespace

void ReadLog::note(uint64_t address, size_t size) {
  if (size == 0) return;
  const uint64_t last = address + size - 1;
  const std::lock_guard lock(mutex_);
  for (uint64_t page = address / kPage; page <= last / kPage; page++) {
    const uint64_t from = page == address / kPage ? address % kPage / kLine : 0;
    const uint64_t to = page == last / kPage ? last % kPage / kLine : 63;
    lines_[page] |= (~uint64_t{0} << from) & (~uint64_t{0} >> (63 - to));
  }
}

void ReadLog::note_place(uint64_t address, unsigned width, uint64_t added) {
  const std::lock_guard lock(mutex_);
  places_.push_back({address, added, width});
}

bool ReadLog::is_same(const Memory& one, const Memory& other,
                      llvm::function_ref<bool(uint64_t)> is_code) const {
  const std::lock_guard lock(mutex_);
  const BlockMemory ones(one), others(other);
  for (const Place& place : places_)
    if (!leads_to_same(place.address, place.width, place.added, ones, others, is_code)) return false;
  std::vector<std::pair<uint64_t, uint64_t>> pages(lines_.begin(), lines_.end());
  std::ranges::sort(pages);
  Range run;
  for (const auto& [page, lines] : pages)
    for (uint64_t line = 0; line < 64; line++) {
      if (!(lines >> line & 1)) continue;
      const uint64_t start = page * kPage + line * kLine;
      if (start != run.end || run.end - run.start >= kMostAtOnce) {
        if (!is_same_in(run, kLine, one, other)) return false;
        run.start = start;
      }
      run.end = start + kLine;
    }
  return is_same_in(run, kLine, one, other);
}

}  // namespace mdl::image
