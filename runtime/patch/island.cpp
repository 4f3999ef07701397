#include "runtime/patch/island.h"

#include <algorithm>

namespace mdl::patch {
namespace {

constexpr uint64_t kLowest = 0x110000;  // above mmap_min_addr and what is mapped at 64 KiB for old programs
constexpr uint64_t kHighest = 0x7ffffffff000;       // end of user space with 4-level tables
constexpr uint64_t kBrkRoom = uint64_t{1} << 30;    // kept free above a heap
constexpr uint64_t kStackRoom = uint64_t{1} << 28;  // and below the first thread's stack

}  // namespace

std::optional<uint64_t> find_gap(std::span<const image::Mapping> mappings,
                                 std::span<const image::Range> taken, const image::Range& near, uint64_t size,
                                 uint64_t reach, uint64_t apart) {
  std::vector<image::Range> busy;
  for (const image::Mapping& mapping : mappings)
    busy.push_back({mapping.start, mapping.end + (mapping.path == "[heap]" ? kBrkRoom : 0)});
  busy.insert(busy.end(), taken.begin(), taken.end());
  // A heap that is not there yet will begin behind the program.
  busy.push_back({near.end, near.end + kBrkRoom / 16});
  std::sort(busy.begin(), busy.end(),
            [](const image::Range& a, const image::Range& b) { return a.start < b.start; });

  uint64_t low = std::max(kLowest, near.end > reach ? near.end - reach : 0);
  uint64_t high = std::min(kHighest, near.start + reach);
  std::optional<uint64_t> best;
  auto distance = [&](uint64_t at) {
    return at < near.start ? near.start - at : (at - near.start) + kHighest;
  };
  auto consider = [&](uint64_t from, uint64_t to) {  // a free stretch
    from = std::max((from + apart + 4095) & ~uint64_t{4095}, low);
    to = std::min(to > apart ? to - apart : 0, high) & ~uint64_t{4095};
    if (to < from || to - from < size) return;
    for (uint64_t at : {to - size, from})
      if (!best || distance(at) < distance(*best)) best = at;
  };
  uint64_t end = 0;
  for (const image::Range& range : busy) {
    if (range.start > end) consider(end, range.start);
    end = std::max(end, range.end);
  }
  consider(end, kHighest);
  return best;
}

std::vector<image::Range> free_gaps(std::span<const image::Mapping> mappings) {
  bool heap = std::any_of(mappings.begin(), mappings.end(),
                          [](const image::Mapping& mapping) { return mapping.path == "[heap]"; });
  std::vector<image::Range> out;
  uint64_t end = kLowest;
  for (const image::Mapping& mapping : mappings) {
    const uint64_t below = mapping.path == "[stack]" ? kStackRoom : kApart;
    const uint64_t until = std::min(mapping.start - std::min(mapping.start, below), kHighest);
    if (until > end) out.push_back({end, until});
    // A heap that is not there yet will begin behind the program.
    const uint64_t above = mapping.path == "[heap]" ? kBrkRoom : heap ? kApart : kBrkRoom / 16;
    end = std::max(end, mapping.end + above);
  }
  if (end < kHighest) out.push_back({end, kHighest});
  return out;
}

}  // namespace mdl::patch
