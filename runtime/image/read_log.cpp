#include "runtime/image/read_log.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/image/block_memory.h"

namespace mdl::image {
namespace {

// Where a word leads; those of 4 bytes are distances, with a sign.
std::optional<uint64_t> place_at(uint64_t address, unsigned width, uint64_t added, const Memory& memory) {
  int64_t value = 0;
  int32_t distance = 0;
  const bool is_distance = width == sizeof distance;
  if (!memory.read(address, is_distance ? std::as_writable_bytes(std::span(&distance, 1))
                                        : std::as_writable_bytes(std::span(&value, 1))))
    return std::nullopt;
  return added + static_cast<uint64_t>(is_distance ? distance : value);
}

}  // namespace

void ReadLog::note(uint64_t address, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    std::unique_ptr<Page>& page = pages_[address / kPage];
    if (!page) page = std::make_unique<Page>();
    const size_t from = address % kPage, size = std::min<size_t>(bytes.size(), kPage - from);
    for (size_t i = 0; i < size; i++) {
      has_changed_ = has_changed_ || (page->is_known[from + i] && page->bytes[from + i] != bytes[i]);
      page->is_known.set(from + i);
      page->bytes[from + i] = bytes[i];
    }
    bytes = bytes.subspan(size);
    address += size;
  }
}

void ReadLog::note_unreadable(uint64_t address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  unreadable_.emplace_back(address, size);
}

void ReadLog::note_place(uint64_t address, unsigned width, uint64_t added, uint64_t place) {
  const std::lock_guard lock(mutex_);
  places_.push_back({address, added, place, width});
}

bool ReadLog::is_true_of(const Memory& memory, llvm::function_ref<bool(uint64_t)> is_code) const {
  const std::lock_guard lock(mutex_);
  if (has_changed_) return false;
  const BlockMemory blocks(memory);  // what is asked for lies close together
  std::vector<std::byte> now;
  for (const auto& [number, page] : pages_)
    for (size_t from = page->is_known._Find_first(), to; from < kPage;
         from = page->is_known._Find_next(to - 1)) {
      for (to = from; to < kPage && page->is_known[to];) to++;
      now.resize(to - from);
      if (!blocks.read(number * kPage + from, now) ||
          std::memcmp(now.data(), page->bytes.data() + from, now.size()) != 0)
        return false;
    }
  for (const auto& [address, size] : unreadable_) {
    now.resize(size);
    if (memory.read(address, now)) return false;
  }
  return std::ranges::all_of(places_, [&](const Place& one) {
    const auto place = place_at(one.address, one.width, one.added, blocks);
    return place && (*place == one.place || (!is_code(*place) && !is_code(one.place)));
  });
}

}  // namespace mdl::image
