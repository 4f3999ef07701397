#include "runtime/values/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/values/spans.h"

namespace mdl::values {
namespace {

// The layout is ours, but may have come back from a journal in the target.
constexpr uint32_t kMostSlots = 1u << 20;
constexpr uint64_t kLargestStride = 16u << 20;
constexpr uint32_t kSlotsAtOnce = 4096;
constexpr uint64_t kWholeAddressSpace = uint64_t{1} << 56;

Error unreadable(const char* what, uint64_t address) {
  return {fmt::format("cannot read {} at {:#x} in the target: it has ended, or executes another program",
                      what, address)};
}

Error damaged(const std::string& what) {
  return {"the measurement's data in the target is damaged: " + what +
          "; the target has written over it, values cannot be trusted any more"};
}

Result<void> check(const BlockLayout& layout) {
  const auto bad = [](const char* what) { return damaged(fmt::format("its layout has {}", what)); };
  if (layout.slots == 0 || layout.slots > kMostSlots) return bad("an impossible number of slots");
  if (layout.stride < kBlockHeaderBytes || layout.stride > kLargestStride || layout.stride % 8 != 0)
    return bad("an impossible size of a block");
  if (layout.directory >= kWholeAddressSpace || layout.blocks >= kWholeAddressSpace ||
      layout.overflow_address >= kWholeAddressSpace)
    return bad("an impossible address");
  for (const CellPlace& cell : layout.cells)
    if (cell.offset < kBlockHeaderBytes || cell.offset % 8 != 0 ||
        cell.offset + uint64_t{format::info(cell.kind).size} > layout.stride ||
        (cell.kind == format::CellKind::span_ &&
         (cell.base < kBlockHeaderBytes || cell.base % 8 != 0 || cell.base + uint64_t{8} > layout.stride)))
      return bad("a cell outside of a block");
  return {};
}

uint64_t word(std::span<const std::byte> bytes, size_t at) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// One cell over the threads seen so far.
class Fold {
 public:
  void add(int64_t value) {
    sum_ += value;
    least_ = count_ == 0 ? value : std::min(least_, value);
    most_ = count_ == 0 ? value : std::max(most_, value);
    ++count_;
  }
  int64_t result(format::Aggregate aggregate) const {
    switch (aggregate) {
      case format::Aggregate::sum:
        return static_cast<int64_t>(static_cast<uint64_t>(sum_));
      case format::Aggregate::min:
        return least_;
      case format::Aggregate::max:
        return most_;
      case format::Aggregate::avg:
        return count_ == 0 ? 0 : static_cast<int64_t>(sum_ / count_);
    }
    return 0;
  }

 private:
  __extension__ __int128 sum_ = 0;  // 2^20 values of 64 bits fit
  int64_t least_ = 0, most_ = 0;
  int64_t count_ = 0;
};

class Reader {
 public:
  Reader(const BlockLayout& layout, const image::Memory& memory)
      : layout_(layout),
        memory_(memory),
        block_(bytes_needed(layout)),
        folds_(layout.cells.size()),
        spans_(layout) {}

  Result<Snapshot> run();

 private:
  // Blocks are read up to the last cell only.
  static size_t bytes_needed(const BlockLayout& layout) {
    uint64_t end = kBlockHeaderBytes;
    for (const CellPlace& cell : layout.cells)
      end = std::max(end, cell.offset + uint64_t{format::info(cell.kind).size});
    return end;
  }

  Result<void> read_slots(uint32_t first, uint32_t count);
  // `owned`: a thread's, so that it counts for minimum, maximum and average.
  Result<void> read_block(uint32_t index, bool owned);

  const BlockLayout& layout_;
  const image::Memory& memory_;
  std::vector<std::byte> block_;
  std::vector<Fold> folds_;
  Spans spans_;
  Snapshot snapshot_;
};

Result<void> Reader::read_block(uint32_t index, bool owned) {
  const uint64_t address = layout_.blocks + index * layout_.stride;
  if (!memory_.read(address, block_)) return unreadable("a thread's block", address);
  snapshot_.anomalies += word(block_, 0);
  if (!owned) return {};
  for (size_t i = 0; i < folds_.size(); ++i)
    if (layout_.cells[i].kind != format::CellKind::span_)
      folds_[i].add(static_cast<int64_t>(word(block_, layout_.cells[i].offset)));
  const auto take = [&](size_t cell, int64_t value) { folds_[cell].add(value); };
  if (!spans_.empty() && !spans_.read(memory_, address, block_, take))
    return unreadable("a thread's block", address);
  return {};
}

Result<void> Reader::read_slots(uint32_t first, uint32_t count) {
  std::vector<std::byte> slots(count * kSlotBytes);
  const uint64_t address = layout_.directory + first * kSlotBytes;
  if (!memory_.read(address, slots)) return unreadable("the directory of threads", address);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t thread = word(slots, i * kSlotBytes), block = word(slots, i * kSlotBytes + 8);
    if (block != layout_.blocks + (first + i) * layout_.stride)
      return damaged(fmt::format("slot {} of the directory holds {:#x}", first + i, block));
    if (thread == 0) continue;
    ++snapshot_.threads;
    if (auto read = read_block(first + i, true); !read) return read;
  }
  return {};
}

Result<Snapshot> Reader::run() {
  std::byte overflow[8];
  if (!memory_.read(layout_.overflow_address, overflow))
    return unreadable("the data's header", layout_.overflow_address);
  snapshot_.overflows = word(overflow, 0);
  for (uint32_t first = 0; first < layout_.slots; first += kSlotsAtOnce)
    if (auto read = read_slots(first, std::min(kSlotsAtOnce, layout_.slots - first)); !read)
      return read.error();
  if (auto read = read_block(layout_.slots, snapshot_.overflows > 0); !read) return read.error();
  for (size_t i = 0; i < folds_.size(); ++i)
    snapshot_.cells.push_back(folds_[i].result(layout_.cells[i].aggregate));
  snapshot_.unsettled = spans_.unsettled();
  return std::move(snapshot_);
}

}  // namespace

Result<Snapshot> read_values(const BlockLayout& layout, const image::Memory& memory) {
  if (auto checked = check(layout); !checked) return checked.error();
  return Reader(layout, memory).run();
}

}  // namespace mdl::values
