#include "runtime/values/keys.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/say.h"
#include "base/utf8.h"
#include "runtime/arch/target_data.h"
#include "runtime/values/cell_kinds.h"

namespace mdl::values {
namespace {

constexpr size_t kWords = kActiveSize / sizeof(uint64_t), kTotalWords = kTotalSize / sizeof(uint64_t);
constexpr uint64_t kAtOnce = 65536;      // totals
constexpr uint64_t kTextsAtOnce = 1024;  // totals, each with up to three of 264 bytes

struct Entry {
  int32_t count = 0;  // 0: free; below: being filled or settled (by the resident code)
  int64_t key = 0;
  uint64_t base = 0;
  uint64_t frame = 0;
  uint64_t total = 0;  // the address of its total
  bool operator==(const Entry&) const = default;
};
struct Active {  // one thread's
  uint64_t block = 0;
  uint64_t thread = 0;  // 0 where keys are not kept by thread
  std::array<Entry, kActiveEntries> entries;
  uint64_t more = 0;
};

bool read_words(const image::Memory& memory, uint64_t address, std::span<uint64_t> into) {
  return memory.read(address, std::as_writable_bytes(into));
}

bool read_active(const image::Memory& memory, const KeyPlace& place, Active& active) {
  std::array<uint64_t, kActiveEntries * kWords + 1> words;
  if (!read_words(memory, active.block + place.keys, words)) return false;
  for (size_t i = 0; i < kActiveEntries; ++i) {
    const uint64_t* w = &words[i * kWords];
    active.entries[i] = {static_cast<int32_t>(w[0]), static_cast<int64_t>(w[1]), w[2], w[3], w[4]};
  }
  active.more = words.back();
  return !place.by_thread || read_words(memory, active.block + kBlockThread, std::span(&active.thread, 1));
}

// The blocks that threads own, and the one that those without a slot share.
std::optional<std::vector<Active>> read_threads(const image::Memory& memory, const BlockLayout& layout,
                                                const KeyPlace& place) {
  std::vector<uint64_t> slots(uint64_t{layout.slots} * 2);
  if (!read_words(memory, layout.directory, slots)) return std::nullopt;
  std::vector<Active> threads;
  for (uint64_t i = 0; i <= layout.slots; ++i) {
    if (i < layout.slots && slots[i * 2] == 0) continue;
    Active active;
    active.block = layout.blocks + i * layout.stride;
    if (!read_active(memory, place, active)) return std::nullopt;
    threads.push_back(active);
  }
  return threads;
}

// One of the totals of what is observed.
void observe(Observations& into, format::CellKind kind, uint64_t total, uint64_t count, uint64_t part) {
  const CellRoutines& of = routines(kind);
  if (of.is_distribution) {
    Distribution one;
    one.sum = static_cast<int64_t>(total);
    if (count != 0 && part != 0 && part <= format::kHistogramBuckets)
      one.buckets.push_back({static_cast<uint32_t>(part - 1), count});
    into.distribution.add(one);
  } else {
    const bool sum_first = kind == format::CellKind::average;
    of.fold(into, std::array{sum_first ? total : count, sum_first ? count : total});
  }
}

bool is_filled(const uint64_t* total) {
  return total[kTotalOwner / 8] != 0;
}

// Reads totals that may be being filled: what was filled already is read whole, and counts as filled afterwards.
bool read_new(const image::Memory& memory, uint64_t address, std::span<uint64_t> into) {
  if (into.empty()) return true;
  std::vector<bool> was_filled;
  for (size_t i = 0; i < into.size(); i += kTotalWords) was_filled.push_back(is_filled(&into[i]));
  if (!read_words(memory, address, into)) return false;
  for (size_t i = 0; i < was_filled.size(); ++i)
    if (!was_filled[i]) into[i * kTotalWords + kTotalOwner / 8] = 0;
  return true;
}

// What is used of the totals of a table, `take(number of the first, their words)` at a time, until it says no.
// `words`: room that is used again and again. `filled`: how many of the first ones have been seen to be filled.
template <typename Take>
bool each_totals(const image::Memory& memory, uint64_t table, uint64_t totals, uint64_t last,
                 std::vector<uint64_t>& words, uint64_t& filled, Take take) {
  uint64_t used = 0;
  if (!read_words(memory, table + kTableUsed, std::span(&used, 1))) return false;
  used = std::min(used, last) + 1;
  for (uint64_t first = 0; first < used; first += kAtOnce) {
    const size_t size = std::min(kAtOnce, used - first) * kTotalWords;
    if (words.size() < size) words.resize(size);
    const auto part = std::span(words).first(size);
    const uint64_t at = table + totals + first * kTotalSize;
    if (!read_words(memory, at, part)) return false;
    const uint64_t old = std::clamp(filled, first, first + size / kTotalWords) - first;
    if (!read_new(memory, at + old * kTotalSize, part.subspan(old * kTotalWords))) return false;
    while (filled - first < size / kTotalWords && is_filled(&part[(filled - first) * kTotalWords])) ++filled;
    if (!take(first, part)) return false;
  }
  return true;
}

KeyOf raw_of_total(const uint64_t* words) {
  const auto word = [&](size_t at) { return words[at / sizeof(uint64_t)]; };
  const auto key = [&](size_t at) { return static_cast<int64_t>(word(at)); };
  return {key(0), word(kTotalThread), {key(kTotalKey2), key(kTotalKey3)}};
}

std::array<int64_t, format::kMostKeysOfMetric> keys_of_total(const uint64_t* words) {
  const KeyOf of = raw_of_total(words);
  return {of.key, of.more[0], of.more[1]};
}

// Where a text that was cut ends: not within a character.
size_t end_of_characters(std::string_view text) {
  size_t last = text.size();
  while (last > 0 && text.size() - last < 4 && (text[last - 1] & 0xc0) == 0x80) --last;
  const bool is_part = last > 0 && (text[last - 1] & 0xc0) == 0xc0 && utf8_length(text.substr(last - 1)) == 0;
  return is_part ? last - 1 : text.size();
}

// What stands in a table for a text.
std::string text_of(const uint64_t* words) {
  if (words[0] & kTextBad) return "<bad address>";
  if (words[0] & kTextClosed) return "<bad descriptor>";
  if (words[0] & kTextNoProc) return "<no /proc>";
  if (words[0] & kTextUnknown) return "<unknown file>";
  const uint64_t size = std::min<uint64_t>((words[0] & 0xffff) - 1, kTextBytes);
  std::string_view text(reinterpret_cast<const char*>(words + 1), size);
  if (words[0] & kTextCut) text = text.substr(0, end_of_characters(text));
  return escaped(text) + (words[0] & kTextCut ? "…" : "");
}

void put_in_order(KeyValues& values) {
  values.in_order.clear();
  for (auto& one : values.totals) values.in_order.push_back(&one);
}

}  // namespace

// Texts that are new among these totals, the `first` of which has that number. A thread writes a text before it adds to
// the total, and both were read in the other order: what has no text has counted nothing yet.
bool KeyReader::read_texts(const image::Memory& memory, uint64_t first, std::span<const uint64_t> totals) {
  constexpr uint64_t kTextWords = kTextSize / sizeof(uint64_t);
  const uint64_t number = totals.size() / kTotalWords;
  const uint64_t each = place_.text_keys;
  const auto is_known = [&](uint64_t i) {
    return first + i < place_.others || !lacks_text(&totals[i * kTotalWords]);
  };
  std::vector<uint64_t> words;
  for (uint64_t i = 0; i < number; ++i) {
    uint64_t end = i;
    while (end < std::min(number, i + kTextsAtOnce) && !is_known(end)) ++end;
    if (end == i) continue;
    words.resize((end - i) * each * kTextWords);
    if (!read_words(memory, place_.table + place_.texts + (first + i) * each * kTextSize, words))
      return false;
    for (uint64_t k = 0; k < (end - i) * each; ++k)
      if (const uint64_t* text = &words[k * kTextWords]; text[0] != 0) {
        const int64_t key = keys_of_total(&totals[(i + k / each) * kTotalWords])[k % each];
        texts_.try_emplace(key, text_of(text));
        if (is_descriptor(k % each)) name(key, texts_.at(key));
      }
    i = end - 1;
  }
  return true;
}

void KeyReader::name(int64_t key, const std::string& text) {
  if (names_.contains(key)) return;
  std::string name = namer_ ? namer_(text) : text;
  // A file is told from others by all of its text, of which a name may lack something.
  const int64_t first =
      name.starts_with(format::kSockets) ? named_.try_emplace(name, key).first->second : key;
  names_.emplace(key, std::pair(std::move(name), first));
}

KeyOf KeyReader::of_total(const uint64_t* total) const {
  KeyOf out = raw_of_total(total);
  for (size_t i = 0; i < place_.text_keys; ++i) {
    int64_t& key = i == 0 ? out.key : out.more[i - 1];
    if (const auto known = names_.find(key); is_descriptor(i) && known != names_.end())
      key = known->second.second;
  }
  return out;
}

bool KeyReader::lacks_text(const uint64_t* total) const {
  const auto keys = keys_of_total(total);
  for (size_t i = 0; i < place_.text_keys; ++i)
    if (is_descriptor(i) ? !names_.contains(keys[i]) : !texts_.contains(keys[i])) return true;
  return false;
}

// A place of a table is the same key's for as long as anybody knows, and what a descriptor is called may be another key's.
void KeyReader::add(const uint64_t* one, KeyValues& out, std::vector<Total*>& known, uint64_t number) const {
  if (routines(place_.kind).fold != nullptr) {
    observe(out.observed[of_total(one)], place_.kind, one[1], one[kTotalCount / 8], one[kTotalPart / 8]);
    return;
  }
  if (known.size() <= number) known.resize(number + 1);
  Total*& place = known[number];
  if (place == nullptr || place->first != raw_of_total(one))
    place = &*out.totals.try_emplace(of_total(one)).first;
  int64_t& total = place->second.value;
  total = static_cast<int64_t>(static_cast<uint64_t>(total) + one[1]);
}

bool KeyReader::read_totals(const image::Memory& memory, KeyValues& out) {
  const KeyPlace& place = place_;
  const bool observes = routines(place.kind).fold != nullptr;
  return each_totals(
      memory, place.table, place.totals, place.most + place.others - 1, words_, filled_,
      [&](uint64_t first, std::span<const uint64_t> words) {
        if (place.texts != 0 && !read_texts(memory, first, words)) return false;
        for (size_t i = 0; i < words.size() / kTotalWords; ++i) {
          const uint64_t* one = &words[i * kTotalWords];
          if (first + i < place.others) {
            if (one[0] == 0) continue;
            out.others = true;
            out.others_total = static_cast<int64_t>(static_cast<uint64_t>(out.others_total) + one[1]);
            if (observes) observe(out.others_observed, place.kind, one[1], one[kTotalCount / 8], first + i);
          } else if (is_filled(one) && !lacks_text(one)) {
            add(one, out, known_, first + i);
          }
        }
        return true;
      });
}

// What threads have counted for themselves of keys that the table has. Its number 0 is nobody's.
bool KeyReader::read_own(const image::Memory& memory, KeyValues& out) {
  return each_totals(memory, place_.table + place_.own, place_.own_totals, place_.most_own, words_,
                     filled_own_, [&](uint64_t first, std::span<const uint64_t> words) {
                       for (size_t i = first == 0 ? 1 : 0; i < words.size() / kTotalWords; ++i)
                         if (const uint64_t* one = &words[i * kTotalWords]; is_filled(one))
                           add(one, out, known_own_, first + i);
                       return true;
                     });
}

bool KeyReader::read_all(const image::Memory& memory, KeyValues& now) {
  auto before = read_threads(memory, layout_, place_);
  if (!before) return false;
  std::vector<uint64_t> bases(before->size());
  for (size_t i = 0; i < before->size(); ++i)
    if (!read_words(memory, (*before)[i].block + place_.base, std::span(&bases[i], 1))) return false;
  if (!read_totals(memory, now) || (place_.own != 0 && !read_own(memory, now))) return false;

  const uint64_t others = place_.table + place_.totals + 8;
  bool moving = false;
  for (size_t i = 0; i < before->size(); ++i) {
    Active after;
    after.block = (*before)[i].block;
    if (!read_active(memory, place_, after)) return false;
    now.more += after.more;
    for (size_t e = 0; e < kActiveEntries; ++e) {
      const Entry &was = (*before)[i].entries[e], &is = after.entries[e];
      const bool same = was.key == is.key && was.base == is.base && was.count > 0 && is.count > 0;
      moving = moving || (!same && (was.count != 0 || is.count != 0));
      if (!same || place_.texts != 0)
        continue;  // code that has texts for keys raises none, whatever a plan says
      int64_t& total = is.total == others ? now.others_total : now.totals[{is.key, after.thread, {}}].value;
      total = static_cast<int64_t>(static_cast<uint64_t>(total) + bases[i] - is.base);
    }
  }
  if (moving) {
    for (auto& [key, total] : now.totals) total.value = std::max(total.value, total.before);
    now.others_total = std::max(now.others_total, last_.others_total);
  }
  return true;
}

Result<void> KeyReader::read(const image::Memory& memory) {
  KeyValues now;
  now.totals = std::move(last_.totals);
  now.in_order = std::move(last_.in_order);
  for (Total* one : now.in_order) one->second.before = std::exchange(one->second.value, 0);
  if (!read_all(memory, now)) {
    known_.clear(), known_own_.clear();
    std::erase_if(now.totals, [](const Total& one) { return one.second.before == KeyTotal().before; });
    for (auto& [key, total] : now.totals) total.value = total.before;
    last_.totals = std::move(now.totals);
    put_in_order(last_);
    return Error{
        "cannot read the keys of a request in the target: it has ended, or executes another program"};
  }
  if (now.in_order.size() != now.totals.size()) put_in_order(now);
  last_ = std::move(now);
  return {};
}

}  // namespace mdl::values
