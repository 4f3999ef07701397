// The values of a request by key (resident/key_table.h): the totals of its table, and what the keys that are
// active in some thread have counted since they were raised.
//
// While threads run, an active key may be settled between two reads. A key is active with the same beginning
// before and after the totals were read: then total and open part fit together. Where it is not, the part
// is left out, and the value of the sample before stands if it was larger. Values that are read when nobody
// counts are exact. Nothing read is trusted: numbers are bounded by the table's shape, keys are only printed.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/image/memory.h"
#include "runtime/values/distribution.h"
#include "runtime/values/values.h"

namespace mdl::values {

struct KeyPlace {
  uint64_t table = 0;        // address
  uint64_t most = 0;         // totals, besides
  uint64_t others = 1;       // those of what found no room
  uint64_t totals = 0;       // offsets in the table
  uint64_t texts = 0;        // 0 where keys are no texts
  uint64_t text_keys = 0;    // how many of them are, the first ones
  uint64_t descriptors = 0;  // which of these are descriptors, as kTableDescriptors
  uint64_t own = 0;          // the table of threads' own totals, an offset in this one; 0 = there is none
  uint64_t most_own = 0;
  uint64_t own_totals = 0;  // an offset in it
  uint32_t keys = 0;        // offsets in a block
  uint32_t base = 0;
  bool by_thread = false;
  format::CellKind kind = format::CellKind::counter;  // of what is kept for each key
};

struct KeyOf {
  int64_t key = 0;
  uint64_t thread = 0;                                           // 0 where keys are not kept by thread
  std::array<int64_t, format::kMostKeysOfMetric - 1> more = {};  // of several, 0 where there are fewer
  auto operator<=>(const KeyOf&) const = default;
  bool operator==(const KeyOf& other) const {  // of arrays it would be a call
    return key == other.key && thread == other.thread && more[0] == other.more[0] && more[1] == other.more[1];
  }
};

struct KeyTotal {
  int64_t value = 0;
  int64_t before =
      std::numeric_limits<int64_t>::min();  // in the sample before: as little as there is where it was not
};

struct KeyValues {
  std::map<KeyOf, KeyTotal> totals;  // each key that was seen,
  // and these in their order: a walk through the map waits for each of thousands of nodes.
  std::vector<std::map<KeyOf, KeyTotal>::value_type*> in_order;
  std::map<KeyOf, Observations> observed;  // or this, where values are observed
  bool others = false;                     // there were keys that found no room; this is what they counted
  int64_t others_total = 0;
  Observations others_observed;
  uint64_t more = 0;  // times that a thread had no room for one more active key
};

// Reads a request's keys again and again.
class KeyReader {
 public:
  KeyReader(BlockLayout layout, KeyPlace place)
      : layout_(std::move(layout)), place_(place), filled_(place.others) {}

  // The values now are the last ones then; an error when the memory cannot be read.
  Result<void> read(const image::Memory& memory);
  const KeyValues& last() const { return last_; }
  // Of a key in these that is a text: what was at the address, cut where that was longer than 256 bytes.
  const std::string& text(int64_t key) const { return texts_.at(key); }
  // Of one that is a descriptor: the name of what it was open for.
  const std::string& descriptor(int64_t key) const { return names_.at(key).first; }
  // Names what a descriptor was open for, when that is first seen. Sockets that have one name, a peer's, are one key.
  using Namer = std::function<std::string(const std::string& text)>;
  void name_descriptors(Namer namer) { namer_ = std::move(namer); }
  bool is_by_thread() const { return place_.by_thread; }
  format::CellKind kind() const { return place_.kind; }

 private:
  using Total = std::map<KeyOf, KeyTotal>::value_type;
  bool read_all(const image::Memory& memory, KeyValues& out);
  bool read_totals(const image::Memory& memory, KeyValues& out);
  bool read_own(const image::Memory& memory, KeyValues& out);
  void add(const uint64_t* total, KeyValues& out, std::vector<Total*>& known, uint64_t number) const;
  bool read_texts(const image::Memory& memory, uint64_t first, std::span<const uint64_t> totals);
  void name(int64_t key, const std::string& text);
  KeyOf of_total(const uint64_t* total) const;
  bool is_descriptor(size_t key) const { return (place_.descriptors >> 8 * key & 0xff) != 0; }
  // Of a total that needs a text which nobody has read.
  bool lacks_text(const uint64_t* total) const;

  BlockLayout layout_;
  KeyPlace place_;
  KeyValues last_;
  // Of ten thousand keys each is looked for once, and not in each sample: by the number of a total, and of a thread's own.
  std::vector<Total*> known_, known_own_;
  uint64_t filled_, filled_own_ = 1;      // how many of the first totals have been seen to be filled
  std::vector<uint64_t> words_;           // as they were read
  std::map<int64_t, std::string> texts_;  // by their hashes, the keys
  Namer namer_;
  std::map<int64_t, std::pair<std::string, int64_t>>
      names_;                             // of descriptors by their texts' hashes; and the first key
  std::map<std::string, int64_t> named_;  // with that name
};

}  // namespace mdl::values
