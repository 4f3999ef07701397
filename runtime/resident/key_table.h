// The shared table of one request such as /Message/*: which keys there have been, and how much each has
// counted while it was active. The resident code (arch/resident.h) fills it:
//
//   +0    offsets in a block: keys, key, change, base; slots less one, most totals, totals so far, offset of
//         the totals, whether they are kept for each thread, how many are for what found no room, offset of the
//         texts or 0, further keys (offsets in a block, or 0), offset of the table behind it, the same or 0,
//         whether it is that one, how many of the keys are texts, which of these are descriptors
//   +192  slots: the number of a total in 32 bits, 0 = free
//         totals of 64 bytes {key, total, thread, 2nd key, part, count, 3rd key, owner}, by number; 0 is for what
//         found no room {1 then, total}
//         texts of 264 bytes {how long, bytes}, those of a total together, by the totals' numbers: where keys are
//         texts; else
//         a table of the same form, whose totals have owners
//
// A total that any thread may write takes a locked instruction, and the cache line goes from one to the other. So a
// thread has totals of its own, known by its block, for keys that it meets while there are few of them (kOwnKeys) and
// as long as the second table has room. Each is a part of its key's: a reader adds them up. A key gets a total in the
// first table before it has others, so that one is the list of keys, and --max-keys bounds it.
//
// Of a metric by key that observes values, `count` is how many, `total` their sum or the extreme one, as its kind of cell
// has it (format/kinds.h). A distribution has a total for each of its buckets that holds something, whose part is the
// bucket's number and one; as many numbers are for what found no room.
//
// Where keys are texts, code names the address of each, and they come before keys that are none. The resident code
// reads up to 256 bytes there and takes their 64-bit hash for the key (FNV-1a, Fowler, Noll and Vo); the texts of a
// total are kept when it is first met. Of a descriptor the text is what it is open for, as /proc/thread-self/fd has it
// at the hit; one that is a socket, or is none, may be no key of the metric's: then nothing is counted.
//
// Where a key is a site, code names the address of a block of the heap. Behind all else lie the blocks that there are,
// with their sites: each allocator's return notes one, and what releases it takes it out. A block is one thread's from
// before the one until behind the other, so nobody else writes its entry meanwhile. Its place is one of the eight of
// its bucket, which neighbouring blocks share, so the pages that are used are few where the heap is small. A block that
// finds no place has no site; neither has one from before the insertion, nor what is no block's beginning.
//
// Numbers are given in the order in which keys appear, so that a reader reads what is used and nothing else.
// Two threads that meet a key at the same time may both give it a number; one of them stays at 0.
// It is private memory that the kernel fills on demand: room for many keys costs nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "format/manifest.h"
#include "runtime/arch/target_data.h"

namespace mdl::resident {

inline constexpr uint64_t kAsUsual = 0;  // in the place of a number of keys: what KeyTableShape::usual() says
inline constexpr uint64_t kMostTexts = 262144;  // keys of one request, of which one is a text
inline constexpr uint64_t kMostKeys = uint64_t{1} << 26;
inline constexpr uint64_t kUsualTable = uint64_t{48} << 20;  // bytes
inline constexpr uint64_t kLeastUsual = 4096;
inline constexpr uint64_t kMostOwn = 65536;
inline constexpr uint64_t kOwnOfKey = 16;  // where there may be few keys

struct KeyTableShape {
  uint64_t most = kLeastUsual;
  format::CellKind kind = format::CellKind::counter;
  uint64_t text_keys = 0;    // how many keys are texts
  uint64_t descriptors = 0;  // as kTableDescriptors
  uint64_t sites = 0;        // as kTableSites

  static KeyTableShape of(uint64_t most, format::CellKind kind, const std::vector<format::KeyName>& names);
  // With room for as many keys as `bytes` hold, and kUsualTable: addresses that a table takes are missing in a program
  // that limits its own later. There are kLeastUsual in any case. The blocks of a heap come on top of it.
  static KeyTableShape usual(uint64_t bytes, format::CellKind kind,
                             const std::vector<format::KeyName>& names);

  bool makes_keys() const { return text_keys != 0 || sites != 0; }
  uint64_t others() const { return kind == format::CellKind::histogram ? format::kHistogramBuckets + 1 : 1; }
  uint64_t slots() const { return slots_for(most); }
  uint64_t totals() const { return kTableSlots + slots() * 4; }
  uint64_t totals_end() const { return totals() + (most + others()) * kTotalSize; }
  uint64_t texts() const { return text_keys ? totals_end() : 0; }
  // Of the second table: where it begins, and where its totals do in it. A number is nobody's there, 0.
  uint64_t most_own() const { return text_keys ? 0 : std::min(most * kOwnOfKey, kMostOwn); }
  uint64_t own() const { return text_keys ? 0 : totals_end(); }
  uint64_t slots_own() const { return slots_for(most_own()); }
  uint64_t own_totals() const { return kTableSlots + slots_own() * 4; }
  uint64_t blocks() const { return sites ? (keys_end() + kBlockAlign - 1) / kBlockAlign * kBlockAlign : 0; }
  uint64_t keys_size() const { return keys_end(); }  // of all but the blocks of a heap
  uint64_t size() const {
    return sites ? blocks() + kBlockBuckets * (uint64_t{1} << kBlockBucketShift) : keys_end();
  }

 private:
  static constexpr uint64_t kBlockAlign = 4096;
  uint64_t keys_end() const {
    return totals_end() + (text_keys ? (most + others()) * kTextSize * text_keys
                                     : own_totals() + (most_own() + 1) * kTotalSize);
  }
  static uint64_t slots_for(uint64_t totals);  // a power of two, at least twice as many
};

// The headers of a new table, and of the one behind it; the rest is zero. Offsets are those of cells in a block.
// `of`: the keys that are meant, one at least.
struct KeyTableHeaders {
  std::array<uint64_t, kTableSlots / 8> first, own;
  uint64_t own_at() const { return first[kTableTexts / 8] == 0 ? first[kTableOwn / 8] : 0; }
};
KeyTableHeaders key_table_headers(const KeyTableShape& shape, uint64_t keys, std::span<const uint64_t> of,
                                  uint64_t change, uint64_t base, bool by_thread);

}  // namespace mdl::resident
