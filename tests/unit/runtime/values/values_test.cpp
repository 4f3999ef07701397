// Reading and folding blocks, also over memory that the target has written over.
#include "runtime/values/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/values/sampler.h"

namespace mdl::values {
namespace {

using format::Aggregate;
using format::CellKind;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kBase = 0x7f0000000000;
constexpr uint64_t kStride = 256;

// Clocks that stand where a test puts them.
class FixedClocks final : public Clocks {
 public:
  uint64_t wall() override { return wall_now; }
  std::optional<uint64_t> of_thread(const ClockOf&, uint64_t thread) override {
    auto found = threads.find(thread);
    return found == threads.end() ? std::nullopt : std::optional(found->second);
  }
  bool alive(uint64_t thread) override { return threads.contains(thread); }
  size_t count() override { return threads.size(); }

  uint64_t wall_now = 0;
  std::map<uint64_t, uint64_t> threads;  // the clock of each that lives
};
FixedClocks no_clocks;

// A data region: one header page, the directory, the blocks.
class Region final : public image::Memory {
 public:
  explicit Region(uint32_t slots,
                  std::vector<CellPlace> cells = {{CellKind::counter, kBlockHeader, Aggregate::sum}}) {
    layout.directory = kBase + 4096;
    layout.slots = slots;
    layout.blocks = layout.directory + slots * kSlotSize;
    layout.stride = kStride;
    layout.overflow_address = kBase + 8;
    layout.cells = std::move(cells);
    bytes.resize(4096 + slots * kSlotSize + (slots + 3) * kStride);
    for (uint32_t i = 0; i < slots; ++i) put(layout.directory + i * kSlotSize + 8, block(i));
  }
  uint64_t block(uint32_t index) const { return layout.blocks + index * kStride; }
  void put(uint64_t address, uint64_t value) { std::memcpy(bytes.data() + (address - kBase), &value, 8); }
  void thread(uint32_t slot, std::vector<int64_t> cells, uint64_t anomalies = 0) {
    if (slot < layout.slots) put(layout.directory + slot * kSlotSize, 0x1000 + slot);
    put(block(slot), anomalies);
    for (size_t i = 0; i < cells.size(); ++i)
      put(block(slot) + kBlockHeader + i * 8, static_cast<uint64_t>(cells[i]));
  }
  bool read(uint64_t address, std::span<std::byte> into) const override {
    if (address < kBase || address - kBase > bytes.size() || into.size() > bytes.size() - (address - kBase))
      return false;
    std::memcpy(into.data(), bytes.data() + (address - kBase), into.size());
    return true;
  }

  BlockLayout layout;
  std::vector<std::byte> bytes;
};

std::string why(const Region& region) {
  const auto read = read_values(region.layout, region, no_clocks);
  return read ? "" : read.error().text;
}

TEST(Values, FoldsOverThreads) {
  Region region(8, {{CellKind::counter, kBlockHeader, Aggregate::sum},
                    {CellKind::counter, kBlockHeader, Aggregate::min},
                    {CellKind::counter, kBlockHeader, Aggregate::max},
                    {CellKind::counter, kBlockHeader, Aggregate::avg},
                    {CellKind::flag, kBlockHeader + 8, Aggregate::sum}});
  region.thread(1, {10, 1}, 2);
  region.thread(3, {-4, 0});
  region.thread(7, {25, 5}, 1);
  const auto read = read_values(region.layout, region, no_clocks);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_THAT(read->cells, ElementsAre(31, -4, 25, 10, 6));
  EXPECT_EQ(read->threads, 3u);
  EXPECT_EQ(read->anomalies, 3u);
  EXPECT_EQ(read->overflows, 0u);
}

TEST(Values, WithoutThreadsAllIsZero) {
  Region region(4, {{CellKind::counter, kBlockHeader, Aggregate::min},
                    {CellKind::counter, kBlockHeader, Aggregate::avg}});
  region.put(region.block(2) + kBlockHeader, 99);  // a free slot's block does not count
  const auto read = read_values(region.layout, region, no_clocks);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->cells, ElementsAre(0, 0));
  EXPECT_EQ(read->threads, 0u);
}

TEST(Values, TheOverflowBlockIsOneThread) {
  Region region(2, {{CellKind::counter, kBlockHeader, Aggregate::sum},
                    {CellKind::counter, kBlockHeader, Aggregate::min}});
  region.thread(0, {10});
  region.thread(1, {20});
  region.thread(2, {3}, 4);
  region.put(region.layout.overflow_address, 6);
  const auto read = read_values(region.layout, region, no_clocks);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->cells, ElementsAre(33, 3));
  EXPECT_EQ(read->overflows, 6u);
  EXPECT_EQ(read->anomalies, 4u);
  EXPECT_EQ(read->threads, 2u);
}

TEST(Values, SumsWrapAndAveragesDoNot) {
  Region region(2, {{CellKind::counter, kBlockHeader, Aggregate::sum},
                    {CellKind::counter, kBlockHeader, Aggregate::avg}});
  region.thread(0, {INT64_MAX});
  region.thread(1, {INT64_MAX});
  const auto read = read_values(region.layout, region, no_clocks);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->cells, ElementsAre(-2, INT64_MAX));
}

TEST(Values, ManySlots) {
  Region region(16384);
  for (uint32_t i = 0; i < 16384; i += 3) region.thread(i, {i});
  const auto read = read_values(region.layout, region, no_clocks);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->threads, 5462u);
  EXPECT_THAT(read->cells, ElementsAre(int64_t{5461} * 5462 / 2 * 3));
}

TEST(Values, ReportsDamage) {
  Region region(4);
  region.put(region.layout.directory + 8, 0xdeadbeef);
  EXPECT_THAT(why(region), HasSubstr("slot 0 of the directory holds 0xdeadbeef"));
  region = Region(4);
  region.bytes.resize(region.bytes.size() - 3 * kStride);
  EXPECT_THAT(why(region), HasSubstr("cannot read a thread's block"));
  region = Region(4);
  region.bytes.resize(4100);
  EXPECT_THAT(why(region), HasSubstr("cannot read the directory"));
  region.bytes.clear();
  EXPECT_THAT(why(region), HasSubstr("cannot read the data's header"));
}

TEST(Values, SurvivesGarbage) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    Region region(64);
    region.thread(5, {1});
    for (int i = 0; i < 1 << (round % 10); ++i)
      region.put(kBase + random() % (region.bytes.size() - 8), random());
    const auto read = read_values(region.layout, region, no_clocks);
    if (read) {
      EXPECT_EQ(read->cells.size(), 1u);
    }
  }
}

TEST(Values, ChecksTheLayout) {
  const auto with = [](auto change) {
    Region region(4);
    change(region.layout);
    return why(region);
  };
  EXPECT_EQ(with([](BlockLayout&) {}), "");
  EXPECT_THAT(with([](BlockLayout& l) { l.slots = 0; }), HasSubstr("number of slots"));
  EXPECT_THAT(with([](BlockLayout& l) { l.slots = UINT32_MAX; }), HasSubstr("number of slots"));
  EXPECT_THAT(with([](BlockLayout& l) { l.stride = 0; }), HasSubstr("size of a block"));
  EXPECT_THAT(with([](BlockLayout& l) { l.stride = UINT64_MAX; }), HasSubstr("size of a block"));
  EXPECT_THAT(with([](BlockLayout& l) { l.blocks = UINT64_MAX; }), HasSubstr("address"));
  EXPECT_THAT(with([](BlockLayout& l) { l.cells[0].offset = kStride; }), HasSubstr("a cell outside"));
  EXPECT_THAT(with([](BlockLayout& l) { l.cells[0].offset = UINT32_MAX - 7; }), HasSubstr("a cell outside"));
  EXPECT_THAT(with([](BlockLayout& l) { l.cells[0].offset = 0; }), HasSubstr("a cell outside"));
}

// A region with a ring, and blocks that say whose they are: a timer and a counter.
class Threads : public testing::Test {
 protected:
  static constexpr uint64_t kTimer = kBlockHeader, kCount = kBlockHeader + kTimerSize;
  void SetUp() override { use({}); }
  void use(std::vector<CellPlace> cells) {
    region = Region(4, std::move(cells));
    region.layout.timers = kTimer, region.layout.calls = region.layout.sums = kCount;
    region.layout.cells_end = kCount + 8;
    region.layout.ring = region.block(7);
    region.layout.ring_entries = 4;
    region.layout.ended_address = kBase + 128;
    region.layout.ticks_per_second = 1'000'000'000;
    region.bytes.resize(region.bytes.size() + 4 * kStride);
  }
  void fill(uint64_t at, uint64_t thread, int64_t timer, uint64_t count) {
    region.put(at + 8, thread);
    region.put(at + kTimer, static_cast<uint64_t>(timer));
    region.put(at + kCount, count);
  }
  void thread(uint32_t slot, uint64_t id, int64_t timer, uint64_t count) {
    region.put(region.layout.directory + slot * kSlotSize, 0x1000 + slot);
    fill(region.block(slot), id, timer, count);
  }
  void ended(uint64_t number, uint32_t slot, uint64_t id, int64_t timer, uint64_t count) {
    uint64_t at = region.layout.ring + number % 4 * kStride;
    fill(at, id, timer, count);
    region.put(at + 16, number + 1);
    region.put(at + 24, region.block(slot));
    region.put(kBase + 128, number + 1);
  }
  Snapshot read(Collector& collector) {
    auto out = collector.read(region, clocks);
    EXPECT_TRUE(out) << out.error().text;
    return out ? *out : Snapshot{};
  }

  Region region{4};
  FixedClocks clocks;
};

constexpr CellPlace kCounts = {CellKind::counter, kBlockHeader + kTimerSize, Aggregate::sum};
constexpr CellPlace kEachCount = {CellKind::counter, kBlockHeader + kTimerSize, Aggregate::sum,
                                  format::Event::minor_faults, Whose::each};
constexpr CellPlace kWall = {CellKind::wall_timer, kBlockHeader, Aggregate::sum};
constexpr CellPlace kCpu = {CellKind::process_timer, kBlockHeader, Aggregate::sum};

std::vector<std::pair<uint64_t, int64_t>> pairs(const std::vector<ThreadValue>& values) {
  std::vector<std::pair<uint64_t, int64_t>> out;
  for (const ThreadValue& value : values) out.emplace_back(value.thread, value.value);
  return out;
}

// Cells that stay keep what threads have and what those had that have ended; new ones begin at zero, also where
// another one's words were.
TEST_F(Threads, CellsChangeBetweenTwoReads) {
  use({kWall, kEachCount, kCounts});
  region.put(region.block(6) + kCount, 5);  // what another injector took
  thread(0, 11, 70, 2);
  ended(0, 1, 12, 100, 3);
  Collector collector(region.layout);
  EXPECT_THAT(read(collector).cells, ElementsAre(170, 0, 10));
  const auto now = collector.taken();
  for (size_t i = 0; i < now.size(); i++) region.put(collector.taken_address() + i * 8, now[i]);
  BlockLayout next = region.layout;
  next.cells = {kEachCount, kWall};
  collector.change(next, {1, 0}, {});
  Snapshot after = read(collector);
  EXPECT_THAT(pairs(after.each[0]), ElementsAre(std::pair(0, 5), std::pair(11, 2), std::pair(12, 3)));
  EXPECT_EQ(after.cells[1], 170);
  // The count goes, and another one gets its words, which are cleared.
  for (uint32_t block : {0u, 6u}) region.put(region.block(block) + kCount, 0);
  next.cells = {kWall, kCounts};
  collector.change(next, {1, std::nullopt}, {{kCount, kCount + 8}});
  EXPECT_THAT(read(collector).cells, ElementsAre(170, 0));
  region.put(region.block(0) + kCount, 4);
  EXPECT_THAT(read(collector).cells, ElementsAre(170, 4));
}

// A thread's clock is behind by what its hits have taken, and stands while one runs.
TEST_F(Threads, TimesLeaveOutWhatHitsHaveTaken) {
  use({kWall, kCpu});
  region.layout.keeps_hit_time = true;
  thread(0, 11, -5000, 0);
  region.put(region.block(0) + 32, 300);
  clocks.wall_now = 7000;
  clocks.threads = {{11, 8000}};
  Collector collector(region.layout);
  Snapshot first = read(collector);
  EXPECT_THAT(first.cells, ElementsAre(1700, 2700));
  EXPECT_EQ(first.taken_ns, 300u);
  region.put(region.block(0) + 32, 100'300);  // a hit was off its processor for the time between
  region.put(region.block(0) + 64, 100'000);
  clocks.wall_now = 107'000;
  first = read(collector);
  EXPECT_THAT(first.cells, ElementsAre(1700, 2700));
  EXPECT_EQ(first.taken_ns, 300u);
  region.put(region.block(0) + 32, 300);
  region.put(region.block(0) + 64, 0);
  clocks.wall_now = 9000;
  region.put(region.block(0) + 24, 8500);  // a hit began
  region.put(region.block(0) + 40, 8200);  // and this is what the thread's clock shows
  EXPECT_EQ(read(collector).cells[0], 3200);
  EXPECT_FALSE(collector.hits(region).at(0).request);
  region.put(region.block(0) + 24, ~UINT64_C(7));  // it was one of request 7
  EXPECT_EQ(read(collector).cells[0], 3700);
  EXPECT_EQ(collector.hits(region).at(0).request, 7u);
  EXPECT_EQ(collector.hits(region).at(0).taken, 300u);
}

TEST_F(Threads, EachHasItsLineAlsoWhenItHasEnded) {
  CellPlace one = kCounts;
  one.whose = Whose::one, one.thread = 12;
  use({kCounts, kEachCount, one});
  Collector collector(region.layout);
  thread(0, 11, 0, 5);
  thread(2, 12, 0, 7);
  Snapshot seen = read(collector);
  EXPECT_THAT(seen.cells, ElementsAre(12, 0, 7));
  EXPECT_THAT(pairs(seen.each[1]), ElementsAre(std::pair(11, 5), std::pair(12, 7)));
  // Thread 12 ends, and 13 gets its block.
  ended(0, 2, 12, 0, 9);
  thread(2, 13, 0, 1);
  seen = read(collector);
  EXPECT_THAT(seen.cells, ElementsAre(15, 0, 9));
  EXPECT_THAT(pairs(seen.each[1]), ElementsAre(std::pair(11, 5), std::pair(12, 9), std::pair(13, 1)));
  auto taken = collector.taken();
  EXPECT_EQ(taken[2], 1u);  // one copy was taken
  EXPECT_EQ(taken[kCount / 8], 9u);
  EXPECT_TRUE(collector.taken().empty());
  // Somebody else who reads now finds the same sum.
  std::memcpy(region.bytes.data() + (collector.taken_address() - kBase), taken.data(), taken.size() * 8);
  EXPECT_THAT(read_values(region.layout, region, clocks)->cells, ElementsAre(15, 0, 0));
}

TEST_F(Threads, ABlockThatIsHandedOverCountsOnce) {
  use({kCounts});
  thread(1, 21, 0, 40);
  ended(0, 1, 21, 0, 40);  // copied, not cleared yet
  Collector collector(region.layout);
  EXPECT_THAT(read(collector).cells, ElementsAre(40));
  thread(1, kRenewed, 0, 33);  // being cleared
  EXPECT_THAT(read(collector).cells, ElementsAre(40));
  thread(1, 22, 0, 2);
  EXPECT_THAT(read(collector).cells, ElementsAre(42));
}

TEST_F(Threads, ACopyThatIsNotCompleteHoldsUpNoOther) {
  use({kCounts});
  thread(0, 31, 0, 3);
  thread(1, 32, 0, 4);
  ended(0, 0, 31, 0, 3);
  region.put(region.layout.ring + 16, 0);  // not complete
  ended(1, 1, 32, 0, 4);
  thread(1, 33, 0, 100);
  Collector collector(region.layout);
  EXPECT_THAT(read(collector).cells, ElementsAre(107));
  EXPECT_EQ(collector.taken()[2], 0u);
  ended(0, 0, 31, 0, 3);
  region.put(kBase + 128, 2);
  thread(0, 34, 0, 0);
  EXPECT_THAT(read(collector).cells, ElementsAre(107));
  EXPECT_EQ(collector.taken()[2], 2u);
}

TEST_F(Threads, ARunningTimerIncludesTheTimeSoFar) {
  use({kWall});
  region.layout.ticks_per_second = 2'000'000'000;
  Collector collector(region.layout);
  clocks.threads[41] = 0;
  clocks.wall_now = 10'000;
  thread(0, 41, 500, 0);
  EXPECT_THAT(read(collector).cells, ElementsAre(250));
  thread(0, 41, 500 - 10'000, 0);  // started at 10,000
  clocks.wall_now = 10'600;
  EXPECT_THAT(read(collector).cells, ElementsAre(550));
  thread(0, 41, 500 + 700 - 10'900, 0);  // stopped, and started after the clock was read
  clocks.wall_now = 10'890;
  EXPECT_THAT(read(collector).cells, ElementsAre(595));
  clocks.wall_now = 11'000;
  EXPECT_THAT(read(collector).cells, ElementsAre(650));
  clocks.threads.clear();  // it has ended: the timer does not run on
  clocks.wall_now = 99'000;
  EXPECT_THAT(read(collector).cells, ElementsAre(650));
  ended(0, 0, 41, 500 + 700 - 10'900, 0);
  thread(0, 42, 50, 0);
  EXPECT_THAT(read(collector).cells, ElementsAre(675));
}

TEST_F(Threads, AThreadsOwnClockNeverTakesAValueBack) {
  use({kCpu});
  Collector collector(region.layout);
  clocks.threads[51] = 5'000;
  thread(3, 51, 100 - 4'000, 0);
  EXPECT_THAT(read(collector).cells, ElementsAre(1'100));
  clocks.threads[51] = 4'900;  // the kernel's account is behind
  EXPECT_THAT(read(collector).cells, ElementsAre(1'100));
  thread(3, 51, 1'050, 0);  // what it was told itself
  EXPECT_THAT(read(collector).cells, ElementsAre(1'100));
  thread(3, 51, 1'200, 0);
  EXPECT_THAT(read(collector).cells, ElementsAre(1'200));
}

TEST_F(Threads, ReportsADamagedRing) {
  use({kCounts});
  region.put(kBase + 128, 9);
  EXPECT_THAT(why(region), HasSubstr("count of ended threads"));
  ended(0, 0, 61, 0, 3);
  region.put(region.layout.ring + 24, region.block(0) + 8);
  EXPECT_THAT(why(region), HasSubstr("a copy of a block names"));
}

TEST(Sampler, Times) {
  Region region(2);
  Sampler sampler(region.layout, {1'000, 5'000'000'000});
  region.thread(0, {100});
  auto sample = sampler.sample(region, no_clocks, {2'000, 7'000'000'000});
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->at.wall_ns, 2'000u);
  EXPECT_DOUBLE_EQ(sample->elapsed_s, 2);
  EXPECT_THAT(sample->values.cells, ElementsAre(100));
  region.thread(0, {130}, 2);
  sample = sampler.sample(region, no_clocks, {3'000, 7'500'000'000});
  ASSERT_TRUE(sample);
  EXPECT_DOUBLE_EQ(sample->elapsed_s, 2.5);
  EXPECT_THAT(sample->values.cells, ElementsAre(130));
  EXPECT_EQ(sample->values.anomalies, 2u);
  EXPECT_TRUE(sample->complete);
  EXPECT_DOUBLE_EQ(seconds({0, 1'000'000'000}, {9, 1'500'000'000}), 0.5);
  EXPECT_EQ(seconds({0, 2}, {0, 1}), 0);
}

// Zero pages cost the target nothing: all slots of a large block, taken by nobody. `counted`: what the last cell of
// each block holds.
class ManyBlocks final : public image::Memory {
 public:
  explicit ManyBlocks(uint32_t slots, uint64_t counted = 0) : counted_(counted) {
    layout.directory = kBase + 4096, layout.slots = slots;
    layout.blocks = layout.directory + layout.slots * kSlotSize, layout.stride = 1 << 20;
    layout.overflow_address = kBase + 8;
    layout.cells = {{CellKind::counter, (1 << 20) - 8, Aggregate::sum}};
  }
  bool read(uint64_t address, std::span<std::byte> into) const override {
    std::memset(into.data(), 0, into.size());
    for (size_t i = 0; i + 8 <= into.size() && address >= layout.directory && address < layout.blocks;
         i += 8) {
      const uint64_t slot = (address + i - layout.directory) / kSlotSize;
      const uint64_t word = i % kSlotSize == 0 ? 0x1000 + slot : layout.blocks + slot * layout.stride;
      std::memcpy(into.data() + i, &word, sizeof word);
    }
    if (address >= layout.blocks && into.size() == layout.stride)
      std::memcpy(into.data() + into.size() - sizeof counted_, &counted_, sizeof counted_);
    return true;
  }
  BlockLayout layout;

 private:
  uint64_t counted_;
};

TEST(Values, BlocksOfThreadsThatThereAreNotHaveALimit) {
  ManyBlocks memory(65536);
  auto read = read_values(memory.layout, memory, no_clocks);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text, HasSubstr("threads that have ended hold more values than can be read"));
}

// 500 MB with the zeros of distributions that nobody has used.
TEST(Values, LargeBlocksOfThreadsThatHaveEndedAreRead) {
  ManyBlocks memory(500, 3);
  auto read = read_values(memory.layout, memory, no_clocks);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_THAT(read->cells, ElementsAre(1500));
}

TEST(Values, SparseWordsAreTheSame) {
  for (const std::vector<uint64_t>& words : {std::vector<uint64_t>{},
                                             {0},
                                             {7},
                                             {0, 0, 0},
                                             {1, 0, 2},
                                             {1, 0, 0, 2},
                                             {0, 0, 5, 0, 6, 0, 0},
                                             {1, 2, 0, 3, 0, 0, 0, 4}}) {
    const SparseWords sparse(words);
    EXPECT_EQ(sparse.whole(), words);
    EXPECT_LE(sparse.bytes(), (words.size() + 1) * sizeof(uint64_t));
  }
  EXPECT_EQ(SparseWords(std::vector<uint64_t>(1000)).bytes(), 0u);
}

TEST(Sampler, RepeatsWhenTheMemoryIsGone) {
  Region region(2);
  Sampler sampler(region.layout, {0, 0});
  region.thread(1, {7}, 1);
  ASSERT_TRUE(sampler.sample(region, no_clocks, {1, 1'000'000'000}));
  region.bytes.clear();
  EXPECT_FALSE(sampler.sample(region, no_clocks, {2, 2'000'000'000}));
  const Sample sample = sampler.repeat({3, 3'000'000'000});
  EXPECT_FALSE(sample.complete);
  EXPECT_THAT(sample.values.cells, ElementsAre(7));
  EXPECT_EQ(sample.values.anomalies, 1u);
  EXPECT_DOUBLE_EQ(sample.elapsed_s, 3);
}

TEST(Sampler, ReadsTheClocks) {
  const Moment first = now(), second = now();
  EXPECT_GE(second.steady_ns, first.steady_ns);
  EXPECT_GT(first.wall_ns, 1'600'000'000'000'000'000u);
}

}  // namespace
}  // namespace mdl::values
