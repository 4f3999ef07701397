#include "runtime/patch/layout.h"

#include <algorithm>
#include <bit>

#include "runtime/arch/arch.h"

namespace mdl::patch {
namespace {

constexpr uint64_t kLinePair = 128;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxRegion = uint64_t{1} << 30;  // of address space; slots shrink before it is passed
constexpr uint32_t kMinSlots = 256, kUsualSlots = 4096, kMaxSlots = 65536;

// The order of cells in a block.
enum class Group : uint8_t { flags, others, spans };
Group group_of(format::CellKind kind) {
  if (kind == format::CellKind::flag) return Group::flags;
  return kind == format::CellKind::span_ ? Group::spans : Group::others;
}

}  // namespace

uint64_t Layout::size() const {
  return (block(slots + 1) + kPage - 1) & ~(kPage - 1);
}

Layout make_layout(std::span<const focus::CellSlot> cells, size_t threads) {
  Layout out;
  uint64_t offset = kBlockHeader;
  out.cells.resize(cells.size());
  for (Group group : {Group::flags, Group::others, Group::spans}) {
    for (size_t i = 0; i < cells.size(); i++) {
      if (group_of(cells[i].kind) != group) continue;
      out.cells[i] = static_cast<uint32_t>(offset);
      offset += format::info(cells[i].kind).size;
    }
    if (group == Group::flags) out.flag_bytes = offset - kBlockHeader;
  }
  out.stride = (offset + kLinePair - 1) & ~(kLinePair - 1);
  uint64_t floor = std::bit_ceil(std::clamp<uint64_t>(threads * 4, kMinSlots, kMaxSlots));
  out.slots = static_cast<uint32_t>(std::max<uint64_t>(floor, kUsualSlots));
  while (out.slots > floor && out.size() > kMaxRegion) out.slots /= 2;
  return out;
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

}  // namespace mdl::patch
