#include "runtime/values/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "runtime/arch/point.h"
#include "runtime/arch/target_data.h"
#include "runtime/values/cell_kinds.h"
#include "runtime/values/spans.h"

namespace mdl::values {
namespace {

// The layout is ours, but may have come back from a journal in the target.
constexpr uint32_t kMostSlots = 1u << 20;
constexpr uint32_t kSlotsAtOnce = 4096;
constexpr uint64_t kWholeAddressSpace = uint64_t{1} << 56;
constexpr size_t kEndedBytes = 192 << 20;           // that blocks of ended threads hold, without their zeros
constexpr uint64_t kEndedRead = uint64_t{2} << 30;  // that is read of them, with their zeros, in one sample
constexpr size_t kMostThreads = 65536;  // that are told apart after they have ended; the rest are thread 0
constexpr size_t kMostEnded = 4 * kMostThreads;  // their values, of all requests; the rest likewise
constexpr size_t kMostZeros = kMostThreads;      // beyond these, what a thread has not counted is not kept

// Words of a block.
constexpr size_t kAnomalies = kBlockAnomalies / 8, kThread = kBlockThread / 8, kTaken = kBlockTaken / 8,
                 kAway = kBlockAway / 8, kClock = kBlockClock / 8, kStands = kBlockStands / 8,
                 kBegan = kBlockBegan / 8;                                    // of a thread that lives,
constexpr size_t kSequence = kBlockSequence / 8, kOrigin = kBlockOrigin / 8;  // and of a copy

Error unreadable(const char* what, uint64_t address) {
  return {fmt::format("cannot read {} at {:#x} in the target: it has ended, or executes another program",
                      what, address)};
}

Error damaged(const std::string& what) {
  return {"the measurement's data in the target is damaged: " + what +
          "; the target has written over it, values cannot be trusted any more"};
}

// Of an honest program as of one that has written over the directory of threads.
Error too_many_ended(uint64_t block) {
  const double megabytes = static_cast<double>(block) / 1e6;
  return {fmt::format(
      "its threads that have ended hold more values than can be read, {:.1f} MB each: ask for fewer "
      "functions, or for counts in the place of distributions",
      megabytes)};
}

Result<void> check(const BlockLayout& layout) {
  const auto bad = [](const char* what) { return damaged(fmt::format("its layout has {}", what)); };
  if (layout.slots == 0 || layout.slots > kMostSlots || layout.ring_entries > kMostSlots ||
      (layout.ring_entries & (layout.ring_entries - 1)) != 0)
    return bad("an impossible number of slots");
  if (layout.stride < kBlockHeader || layout.stride > kLargestBlock || layout.stride % 8 != 0)
    return bad("an impossible size of a block");
  for (uint64_t address : {layout.directory, layout.blocks, layout.overflow_address, layout.confined_address,
                           layout.borrowed_address, layout.ring, layout.ended_address})
    if (address >= kWholeAddressSpace) return bad("an impossible address");
  if (layout.timers > layout.calls || layout.calls > layout.sums || layout.sums > layout.cells_end ||
      layout.cells_end > layout.stride || layout.extremes_end > layout.stride ||
      (layout.timers | layout.calls | layout.sums) % 8 != 0)
    return bad("cells outside of a block");
  if (layout.anomalies > layout.anomalies_end || layout.anomalies_end > layout.cells_end ||
      (layout.anomalies | layout.anomalies_end) % 8 != 0)
    return bad("anomalies outside of a block");
  for (const CellPlace& cell : layout.cells)
    if (cell.offset < kBlockHeader || cell.offset % 8 != 0 ||
        cell.offset + uint64_t{format::info(cell.kind).size} > layout.stride ||
        (cell.kind == format::CellKind::span_ &&
         (cell.base < kBlockHeader || cell.base % 8 != 0 || cell.base + uint64_t{8} > layout.stride)))
      return bad("a cell outside of a block");
  return {};
}

int64_t signed_word(const std::vector<uint64_t>& words, uint64_t offset) {
  return static_cast<int64_t>(words[offset / 8]);
}

// In ticks of the wall clock, in the target.
bool is_ticks(format::CellKind kind) {
  return format::info(kind).clock == format::CellClock::wall;
}

// Blocks are read up to the last cell only.
size_t words_needed(const BlockLayout& layout) {
  uint64_t end = std::max({kBlockHeader, layout.cells_end, layout.extremes_end});
  for (const CellPlace& cell : layout.cells)
    end = std::max(end, cell.offset + uint64_t{format::info(cell.kind).size});
  return std::min(end, layout.stride) / 8;
}

}  // namespace

const Observations& Snapshot::observed(size_t cell, uint64_t thread) const {
  static const Observations kNothing;
  const auto found = distributions.find({cell, thread});
  return found == distributions.end() ? kNothing : found->second;
}

Collector::Collector(BlockLayout layout)
    : layout_(std::move(layout)),
      layout_is_sound_(check(layout_)),
      has_timers_(std::any_of(layout_.cells.begin(), layout_.cells.end(),
                              [](const CellPlace& cell) { return format::is_timer(cell.value_kind()); })),
      ended_(layout_.cells.size()),
      each_ended_(layout_.cells.size()) {
  for (size_t i = 0; i < layout_.cells.size(); i++)
    if (routines(layout_.cells[i].kind).fold) folded_.push_back(i);
}

namespace {

// The elements that are kept, at their new places.
template <typename Element>
std::vector<Element> rearranged(std::vector<Element>& before,
                                const std::vector<std::optional<uint32_t>>& kept) {
  std::vector<Element> out(kept.size());
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i] && *kept[i] < before.size()) out[i] = std::move(before[*kept[i]]);
  return out;
}

}  // namespace

void Collector::change(BlockLayout layout, const std::vector<std::optional<uint32_t>>& kept,
                       const std::vector<std::pair<uint64_t, uint64_t>>& cleared) {
  Collector next(std::move(layout));
  next.ended_ = rearranged(ended_, kept);
  next.each_ended_ = rearranged(each_ended_, kept);
  for (const auto& values : next.each_ended_) next.each_ended_size_ += values.size();
  for (auto& [slot, thread] : living_) next.living_[slot] = {thread.id, rearranged(thread.last, kept)};
  for (size_t i = 0; i < kept.size(); ++i)
    for (auto& [of, distribution] : distributions_ended_)
      if (kept[i] && of.first == *kept[i]) next.distributions_ended_[{i, of.second}] = distribution;
  for (Words* words : {&taken_, &earlier_}) {
    if (words->empty()) continue;
    words->resize(words_needed(next.layout_));
    for (const auto& [first, end] : cleared)
      for (uint64_t at = first / 8; at < end / 8 && at < words->size(); ++at) (*words)[at] = 0;
  }
  next.taken_ = std::move(taken_);
  next.earlier_ = std::move(earlier_);
  next.ahead_ = std::move(ahead_);
  next.changed_ = changed_;
  *this = std::move(next);
}

Result<Collector::Words> Collector::read_block(const image::Memory& memory, uint64_t address) const {
  Words words(words_needed(layout_));
  if (!memory.read(address, std::as_writable_bytes(std::span(words))))
    return unreadable("a thread's block", address);
  return words;
}

Result<void> Collector::read_header(const image::Memory& memory) {
  if (!memory.read(layout_.overflow_address, std::as_writable_bytes(std::span(&overflows_, 1))))
    return unreadable("the data's header", layout_.overflow_address);
  uint64_t confined = 0, borrowed = 0;
  for (const auto& [address, word] :
       {std::pair(layout_.confined_address, &confined), std::pair(layout_.borrowed_address, &borrowed)})
    if (address != 0 && !memory.read(address, std::as_writable_bytes(std::span(word, 1))))
      return unreadable("the data's header", address);
  if (borrowed != 0)
    return Error{
        "it has started a thread that has the thread pointer of another (clone without CLONE_SETTLS): they "
        "count in one place, and counts may be lost"};
  if (confined >= kCallLeftOut)
    return Error{
        "it has put itself under a seccomp filter or has its system calls come back to it as SIGSYS, or is "
        "about to, and the system calls that code of the measurement needs (for times, texts, or a thread "
        "that counts for the first time) are not made there any more"};
  if (layout_.ring_entries == 0 || !taken_.empty()) return {};
  auto taken = read_block(memory, slot_address(layout_.slots + uint64_t{2}));
  if (!taken) return taken.error();
  taken_ = earlier_ = std::move(*taken);
  return {};
}

// Each thread has a block, and some that have ended had. A program may write that all slots are taken.
bool Collector::exceeds(uint64_t bytes, uint64_t of_ended, Clocks& clocks) const {
  return bytes > of_ended && bytes - of_ended > clocks.count() * (layout_.stride + sizeof(uint64_t));
}

Result<void> Collector::keep(uint32_t slot, const Words& words, Clocks& clocks) {
  Kept kept{.slot = slot, .thread = words[kThread], .words = SparseWords(words)};
  kept_bytes_ += kept.words.bytes();
  if (exceeds(kept_bytes_, kEndedBytes, clocks)) return too_many_ended(layout_.stride);
  seen_.push_back(std::move(kept));
  return {};
}

Result<void> Collector::read_slots(const image::Memory& memory, uint32_t first, uint32_t count,
                                   Clocks& clocks) {
  std::vector<uint64_t> slots(count * kSlotSize / 8);
  const uint64_t address = layout_.directory + first * kSlotSize;
  if (!memory.read(address, std::as_writable_bytes(std::span(slots))))
    return unreadable("the directory of threads", address);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t pointer = slots[i * 2], block = slots[i * 2 + 1];
    if (block != slot_address(first + i))
      return damaged(fmt::format("slot {} of the directory holds {:#x}", first + i, block));
    if (pointer == 0) continue;
    read_bytes_ += words_needed(layout_) * sizeof(uint64_t);
    if (exceeds(read_bytes_, kEndedRead, clocks)) return too_many_ended(layout_.stride);
    auto words = read_block(memory, block);
    if (!words) return words.error();
    if (layout_.identified && (*words)[kThread] == 0) continue;
    if ((*words)[kThread] == kRenewed) continue;
    if (auto kept = keep(first + i, *words, clocks); !kept) return kept.error();
  }
  return {};
}

int64_t Collector::last_value(uint32_t slot, uint64_t thread, size_t cell) const {
  const auto known = living_.find(slot);
  return known != living_.end() && known->second.id == thread ? known->second.last[cell] : 0;
}

// The value that a thread had when it ended.
int64_t Collector::ended_value(const Words& copy, uint32_t slot, size_t cell) const {
  const int64_t value = signed_word(copy, layout_.cells[cell].offset);
  const auto ended = routines(layout_.cells[cell].value_kind()).ended;
  return ended ? ended(value, last_value(slot, copy[kThread], cell)) : value;
}

void Collector::keep_ended(size_t cell, uint64_t thread, int64_t value) {
  std::map<uint64_t, int64_t>& values = each_ended_[cell];
  if (!values.contains(thread)) {
    if (value == 0 && each_ended_size_ >= kMostZeros) return;
    if (values.size() >= kMostThreads || each_ended_size_ >= kMostEnded) thread = 0;
    each_ended_size_ += values.contains(thread) ? 0 : 1;
  }
  values[thread] += value;
}

void Collector::take(const Words& copy, uint32_t slot) {
  distribute(copy, copy[kThread], distributions_ended_);
  for (size_t i = 0; i < layout_.cells.size(); ++i) {
    const CellPlace& cell = layout_.cells[i];
    if (cell.whose == Whose::one && cell.thread != copy[kThread]) continue;
    int64_t value = ended_value(copy, slot, i);
    if (cell.whose == Whose::each)
      keep_ended(i, copy[kThread], value);
    else
      ended_[i].add(value);
  }
  taken_[kAnomalies] += copy[kAnomalies];
  taken_[kTaken] += copy[kTaken] - copy[kAway];
  for (uint64_t at = layout_.timers; at < layout_.calls; at += kTimerSize)
    if (signed_word(copy, at) > 0) taken_[at / 8] += copy[at / 8];
  for (uint64_t at = layout_.sums; at < layout_.cells_end; at += 8) taken_[at / 8] += copy[at / 8];
  for (uint64_t at = layout_.cells_end / 8; at + 1 < layout_.extremes_end / 8; at += 2) {
    taken_[at] += copy[at];
    taken_[at + 1] = std::max(taken_[at + 1], copy[at + 1]);
  }
  living_.erase(slot);
  std::erase_if(seen_, [&](const Kept& s) { return s.slot == slot && s.thread == copy[kThread]; });
}

// Copies in front of one that is not complete yet are free again when it is.
Result<void> Collector::read_ring(const image::Memory& memory) {
  if (layout_.ring_entries == 0) return {};
  uint64_t header[2];
  if (!memory.read(layout_.ended_address, std::as_writable_bytes(std::span(header))))
    return unreadable("the data's header", layout_.ended_address);
  unrecorded_ = header[1];
  uint64_t& next = taken_[kSequence];
  if (header[0] - next > layout_.ring_entries) return damaged("its count of ended threads is impossible");
  for (uint64_t number = next; number != header[0]; ++number) {
    if (ahead_.contains(number)) continue;
    auto copy = read_block(memory, layout_.ring + (number & (layout_.ring_entries - 1)) * layout_.stride);
    if (!copy) return copy.error();
    if ((*copy)[kSequence] != number + 1) continue;
    uint64_t slot = ((*copy)[kOrigin] - layout_.blocks) / layout_.stride;
    if (slot >= layout_.slots || slot_address(slot) != (*copy)[kOrigin])
      return damaged(fmt::format("a copy of a block names {:#x}", (*copy)[kOrigin]));
    take(*copy, static_cast<uint32_t>(slot));
    ahead_.insert(number);
    changed_ = true;
  }
  while (ahead_.erase(next)) ++next;
  return {};
}

// While a hit runs, the thread's clock stands.
uint64_t Collector::wall_of(const Words& words) const {
  return static_cast<int64_t>(words[kBegan]) > 0 ? words[kClock] : wall_ - words[kTaken];
}

std::optional<uint64_t> Collector::less_taken(const image::Memory& memory, const Seen& seen,
                                              const ClockOf& of, uint64_t clock) const {
  if (!layout_.keeps_hit_time || of.clock == format::CellClock::event) return clock;
  if (of.clock == format::CellClock::wall) return wall_of(seen.words);
  Words words(kBlockHeader / 8);
  if (!memory.read(slot_address(seen.slot), std::as_writable_bytes(std::span(words)))) return std::nullopt;
  return words[kStands] != 0 ? words[kStands] : clock - taken_ns(words);
}

class Collector::Reading final : public CellReading {
 public:
  Reading(const Collector& all, const image::Memory& memory, Clocks& clocks, const Seen& seen)
      : all_(all), memory_(memory), clocks_(clocks), seen_(seen), thread_(seen.words[kThread]) {}
  int64_t of(size_t index) {
    index_ = index;
    const auto read = routines(cell().kind).read;
    return read ? read(*this) : word();
  }
  int64_t word() const override { return signed_word(seen_.words, cell().offset); }
  int64_t last() const override { return all_.last_value(seen_.slot, thread_, index_); }
  std::optional<Running> running() override {
    const ClockOf of{format::info(cell().kind).clock, cell().event};
    auto now = clock(of);
    if (!now) return std::nullopt;
    Running out{word(), 0};
    // The wall clock was read before the block; a clock of the thread has been read now.
    if (of.clock != format::CellClock::wall && !memory_.read(all_.slot_address(seen_.slot) + cell().offset,
                                                             std::as_writable_bytes(std::span(&out.word, 1))))
      return std::nullopt;
    now = all_.less_taken(memory_, seen_, of, *now);
    if (!now) return std::nullopt;
    out.clock = *now;
    return out;
  }
  // Nothing when the thread has ended.
  std::optional<uint64_t> clock(const ClockOf& of) {
    if (of.clock != format::CellClock::wall) return clocks_.of_thread(of, thread_);
    return clocks_.alive(thread_) ? std::optional(all_.wall_) : std::nullopt;
  }

 private:
  const CellPlace& cell() const { return all_.layout_.cells[index_]; }

  const Collector& all_;
  const image::Memory& memory_;
  Clocks& clocks_;
  const Seen& seen_;
  const uint64_t thread_;
  size_t index_ = 0;
};

Result<void> Collector::fold_living(const image::Memory& memory, Clocks& clocks, Snapshot& out) {
  Spans spans(layout_);
  for (const Kept& kept : seen_) {
    const Seen seen{.slot = kept.slot, .words = kept.words.whole()};
    const uint64_t thread = kept.thread;
    Reading reading(*this, memory, clocks, seen);
    const auto clock = [&](const ClockOf& of) {
      const auto now = reading.clock(of);
      return now ? less_taken(memory, seen, of, *now) : now;
    };
    count_anomalies(seen.words, out);
    out.taken_ns += taken_ns(seen.words);
    distribute(seen.words, thread, distributions_);
    std::vector<int64_t> values(layout_.cells.size());
    const auto take = [&](size_t cell, int64_t value) {
      const bool timer = format::is_timer(layout_.cells[cell].base_kind);
      values[cell] = timer ? std::max(value, last_value(seen.slot, thread, cell)) : value;
    };
    if (!spans.empty() &&
        !spans.read(memory, slot_address(seen.slot), std::as_bytes(std::span(seen.words)), clock, take))
      return unreadable("a thread's block", slot_address(seen.slot));
    for (size_t i = 0; i < layout_.cells.size(); ++i) {
      const CellPlace& cell = layout_.cells[i];
      if (cell.kind != format::CellKind::span_) values[i] = reading.of(i);
      if (cell.whose == Whose::each)
        each_[i][thread] += values[i];
      else if (cell.whose == Whose::all || cell.thread == thread)
        folds_[i].add(values[i]);
    }
    if (has_timers_) living_[seen.slot] = {thread, std::move(values)};
  }
  out.threads = static_cast<uint32_t>(seen_.size());
  out.unsettled = spans.unsettled();
  return {};
}

void Collector::count_anomalies(const Words& words, Snapshot& out, uint64_t times) const {
  out.anomalies += words[kAnomalies] * times;
  out.anomaly_words.resize((layout_.anomalies_end - layout_.anomalies) / sizeof(uint64_t));
  for (size_t i = 0; i < out.anomaly_words.size(); ++i) {
    const uint64_t more = words[layout_.anomalies / sizeof(uint64_t) + i] * times;
    out.anomaly_words[i] += more;
    out.anomalies += more;
  }
}

// What has been counted by threads that are not known: where each has a line, in that of thread 0.
void Collector::add_to_nobody(size_t cell, int64_t value) {
  if (layout_.cells[cell].whose == Whose::each && value != 0) each_[cell][0] += value;
}

// Threads without a slot, as one.
Result<void> Collector::fold_overflow(const image::Memory& memory, Snapshot& out) {
  const uint64_t address = slot_address(layout_.slots);
  auto words = read_block(memory, address);
  if (!words) return words.error();
  count_anomalies(*words, out);
  out.taken_ns += taken_ns(*words);
  if (overflows_ == 0) return {};
  std::vector<int64_t> values(layout_.cells.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = signed_word(*words, layout_.cells[i].offset);
    if (const auto shared = routines(layout_.cells[i].kind).shared) values[i] = shared(values[i]);
  }
  Spans spans(layout_);
  const auto take = [&](size_t cell, int64_t value) { values[cell] = value; };
  const auto no_clock = [](const ClockOf&) { return std::optional<uint64_t>(); };  // whose would it be?
  if (!spans.empty() && !spans.read(memory, address, std::as_bytes(std::span(*words)), no_clock, take))
    return unreadable("a thread's block", address);
  for (size_t i = 0; i < values.size(); ++i)
    if (layout_.cells[i].whose == Whose::all)
      folds_[i].add(values[i]);
    else
      add_to_nobody(i, values[i]);
  distribute(*words, std::nullopt, distributions_);
  return {};
}

// Words of threads that are not known one by one.
void Collector::fold_sums(const Words& words, Snapshot& out) {
  if (words.empty()) return;
  count_anomalies(words, out);
  out.taken_ns += taken_ns(words);
  for (size_t i = 0; i < layout_.cells.size(); ++i)
    if (const int64_t value = signed_word(words, layout_.cells[i].offset);
        layout_.cells[i].whose == Whose::all)
      folds_[i].add_to_sum(value);
    else
      add_to_nobody(i, value);
  distribute(words, std::nullopt, distributions_);
}

void Collector::distribute(const Words& words, std::optional<uint64_t> thread, Distributions& into) const {
  for (const size_t i : folded_) {
    const CellPlace& cell = layout_.cells[i];
    if (cell.whose == Whose::one && (!thread || cell.thread != *thread)) continue;
    const std::span own = std::span(words).subspan(cell.offset / sizeof(uint64_t),
                                                   format::info(cell.kind).size / sizeof(uint64_t));
    uint64_t of = cell.whose == Whose::each ? thread.value_or(0) : 0;
    if (of && into.size() >= kMostThreads && !into.contains({i, of})) of = 0;
    routines(cell.kind).fold(into[{i, of}], own);
  }
}

uint64_t Collector::taken_ns(const Words& words) const {
  const auto ticks = static_cast<int64_t>(words[kTaken] - words[kAway]);
  if (!layout_.keeps_hit_time || ticks <= 0) return 0;  // a block may be read in the midst of a hit
  return nanoseconds(static_cast<uint64_t>(ticks), layout_.ticks_per_second);
}

int64_t Collector::in_units(const CellPlace& cell, int64_t value) const {
  if (!is_ticks(cell.value_kind()) || layout_.ticks_per_second == 0) return value;
  __extension__ using Wide = __int128;
  return static_cast<int64_t>(Wide{value} * 1'000'000'000 / static_cast<int64_t>(layout_.ticks_per_second));
}

void Collector::finish(Snapshot& out) {
  for (size_t i = 0; i < layout_.cells.size(); ++i) {
    const CellPlace& cell = layout_.cells[i];
    out.cells.push_back(in_units(cell, folds_[i].result(cell.aggregate)));
    out.counts.push_back(folds_[i].count());
    std::vector<ThreadValue>& each = out.each.emplace_back();
    for (const auto& [thread, value] : each_[i]) each.push_back({thread, in_units(cell, value)});
  }
  out.distributions = std::move(distributions_);
  out.overflows = overflows_;
  out.unrecorded = unrecorded_;
}

Result<Snapshot> Collector::read(const image::Memory& memory, Clocks& clocks) {
  if (!layout_is_sound_) return layout_is_sound_.error();
  seen_.clear();
  read_bytes_ = kept_bytes_ = 0;
  wall_ = clocks.wall();
  if (auto read = read_header(memory); !read) return read.error();
  for (uint32_t first = 0; first < layout_.slots; first += kSlotsAtOnce)
    if (auto read = read_slots(memory, first, std::min(kSlotsAtOnce, layout_.slots - first), clocks); !read)
      return read.error();
  if (auto read = read_ring(memory); !read) return read.error();
  Snapshot out;
  folds_ = ended_;
  each_ = each_ended_;
  distributions_ = distributions_ended_;
  if (auto folded = fold_living(memory, clocks, out); !folded) return folded.error();
  if (auto folded = fold_overflow(memory, out); !folded) return folded.error();
  if (layout_.ring_entries != 0) {
    auto ended = read_block(memory, slot_address(layout_.slots + uint64_t{1}));
    if (!ended) return ended.error();
    fold_sums(*ended, out);
    fold_sums(earlier_, out);
    count_anomalies(taken_, out);
    count_anomalies(earlier_, out, UINT64_MAX);
    out.taken_ns += taken_ns(taken_) - taken_ns(earlier_);
  }
  finish(out);
  return out;
}

bool Collector::has_many(uint64_t made) const {
  return layout_is_sound_ && layout_.ring_entries != 0 && !taken_.empty() &&
         made - taken_[kSequence] >= layout_.ring_entries / 4;
}

Result<void> Collector::drain(const image::Memory& memory, uint64_t made) {
  return has_many(made) ? read_ring(memory) : Result<void>();
}

std::vector<Collector::Hit> Collector::hits(const image::Memory& memory) const {
  std::vector<Hit> out;
  for (const Kept& seen : seen_) {
    uint64_t words[2];  // kBegan, kTaken
    if (memory.read(slot_address(seen.slot) + kBegan * sizeof *words,
                    std::as_writable_bytes(std::span(words))))
      out.push_back({seen.slot, words[1], arch::last_request(words[0])});
  }
  return out;
}

uint64_t Collector::taken_address() const {
  return slot_address(layout_.slots + uint64_t{2});
}

std::vector<uint64_t> Collector::taken() {
  if (!std::exchange(changed_, false)) return {};
  return taken_;
}

Result<Snapshot> read_values(const BlockLayout& layout, const image::Memory& memory, Clocks& clocks) {
  return Collector(layout).read(memory, clocks);
}

}  // namespace mdl::values
