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
constexpr uint64_t kStride = 128;

// A data region: one header page, the directory, the blocks.
class Region final : public image::Memory {
 public:
  explicit Region(uint32_t slots, std::vector<CellPlace> cells = {{CellKind::counter, 64, Aggregate::sum}}) {
    layout.directory = kBase + 4096;
    layout.slots = slots;
    layout.blocks = layout.directory + slots * kSlotBytes;
    layout.stride = kStride;
    layout.overflow_address = kBase + 8;
    layout.cells = std::move(cells);
    bytes.resize(4096 + slots * kSlotBytes + (slots + 1) * kStride);
    for (uint32_t i = 0; i < slots; ++i) put(layout.directory + i * kSlotBytes + 8, block(i));
  }
  uint64_t block(uint32_t index) const { return layout.blocks + index * kStride; }
  void put(uint64_t address, uint64_t value) { std::memcpy(bytes.data() + (address - kBase), &value, 8); }
  void thread(uint32_t slot, std::vector<int64_t> cells, uint64_t anomalies = 0) {
    if (slot < layout.slots) put(layout.directory + slot * kSlotBytes, 0x1000 + slot);
    put(block(slot), anomalies);
    for (size_t i = 0; i < cells.size(); ++i) put(block(slot) + 64 + i * 8, static_cast<uint64_t>(cells[i]));
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
  const auto read = read_values(region.layout, region);
  return read ? "" : read.error().text;
}

TEST(Values, FoldsOverThreads) {
  Region region(8, {{CellKind::counter, 64, Aggregate::sum},
                    {CellKind::counter, 64, Aggregate::min},
                    {CellKind::counter, 64, Aggregate::max},
                    {CellKind::counter, 64, Aggregate::avg},
                    {CellKind::flag, 72, Aggregate::sum}});
  region.thread(1, {10, 1}, 2);
  region.thread(3, {-4, 0});
  region.thread(7, {25, 5}, 1);
  const auto read = read_values(region.layout, region);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_THAT(read->cells, ElementsAre(31, -4, 25, 10, 6));
  EXPECT_EQ(read->threads, 3u);
  EXPECT_EQ(read->anomalies, 3u);
  EXPECT_EQ(read->overflows, 0u);
}

TEST(Values, WithoutThreadsAllIsZero) {
  Region region(4, {{CellKind::counter, 64, Aggregate::min}, {CellKind::counter, 64, Aggregate::avg}});
  region.put(region.block(2) + 64, 99);  // a free slot's block does not count
  const auto read = read_values(region.layout, region);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->cells, ElementsAre(0, 0));
  EXPECT_EQ(read->threads, 0u);
}

TEST(Values, TheOverflowBlockIsOneThread) {
  Region region(2, {{CellKind::counter, 64, Aggregate::sum}, {CellKind::counter, 64, Aggregate::min}});
  region.thread(0, {10});
  region.thread(1, {20});
  region.thread(2, {3}, 4);
  region.put(region.layout.overflow_address, 6);
  const auto read = read_values(region.layout, region);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->cells, ElementsAre(33, 3));
  EXPECT_EQ(read->overflows, 6u);
  EXPECT_EQ(read->anomalies, 4u);
  EXPECT_EQ(read->threads, 2u);
}

TEST(Values, SumsWrapAndAveragesDoNot) {
  Region region(2, {{CellKind::counter, 64, Aggregate::sum}, {CellKind::counter, 64, Aggregate::avg}});
  region.thread(0, {INT64_MAX});
  region.thread(1, {INT64_MAX});
  const auto read = read_values(region.layout, region);
  ASSERT_TRUE(read);
  EXPECT_THAT(read->cells, ElementsAre(-2, INT64_MAX));
}

TEST(Values, ManySlots) {
  Region region(16384);
  for (uint32_t i = 0; i < 16384; i += 3) region.thread(i, {i});
  const auto read = read_values(region.layout, region);
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(read->threads, 5462u);
  EXPECT_THAT(read->cells, ElementsAre(int64_t{5461} * 5462 / 2 * 3));
}

TEST(Values, ReportsDamage) {
  Region region(4);
  region.put(region.layout.directory + 8, 0xdeadbeef);
  EXPECT_THAT(why(region), HasSubstr("slot 0 of the directory holds 0xdeadbeef"));
  region = Region(4);
  region.bytes.resize(region.bytes.size() - kStride);
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
    const auto read = read_values(region.layout, region);
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
  EXPECT_THAT(with([](BlockLayout& l) { l.cells[0].offset = 128; }), HasSubstr("a cell outside"));
  EXPECT_THAT(with([](BlockLayout& l) { l.cells[0].offset = UINT32_MAX - 7; }), HasSubstr("a cell outside"));
  EXPECT_THAT(with([](BlockLayout& l) { l.cells[0].offset = 0; }), HasSubstr("a cell outside"));
}

TEST(Sampler, DeltaRateElapsed) {
  Region region(2);
  Sampler sampler(region.layout, {1'000, 5'000'000'000});
  region.thread(0, {100});
  auto sample = sampler.sample(region, {2'000, 7'000'000'000});
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->at.wall_ns, 2'000u);
  EXPECT_DOUBLE_EQ(sample->elapsed_s, 2);
  EXPECT_EQ(sample->values[0].total, 100);
  EXPECT_EQ(sample->values[0].delta, 100);
  EXPECT_DOUBLE_EQ(sample->values[0].rate, 50);
  region.thread(0, {130}, 2);
  sample = sampler.sample(region, {3'000, 7'500'000'000});
  ASSERT_TRUE(sample);
  EXPECT_DOUBLE_EQ(sample->elapsed_s, 2.5);
  EXPECT_EQ(sample->values[0].delta, 30);
  EXPECT_DOUBLE_EQ(sample->values[0].rate, 60);
  EXPECT_EQ(sample->anomalies, 2u);
  EXPECT_TRUE(sample->complete);
  // At the same moment again: no rate.
  sample = sampler.sample(region, {3'000, 7'500'000'000});
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->values[0].delta, 0);
  EXPECT_EQ(sample->values[0].rate, 0);
}

TEST(Sampler, RepeatsWhenTheMemoryIsGone) {
  Region region(2);
  Sampler sampler(region.layout, {0, 0});
  region.thread(1, {7}, 1);
  ASSERT_TRUE(sampler.sample(region, {1, 1'000'000'000}));
  region.bytes.clear();
  EXPECT_FALSE(sampler.sample(region, {2, 2'000'000'000}));
  const Sample sample = sampler.repeat({3, 3'000'000'000});
  EXPECT_FALSE(sample.complete);
  EXPECT_EQ(sample.values[0].total, 7);
  EXPECT_EQ(sample.values[0].delta, 0);
  EXPECT_EQ(sample.anomalies, 1u);
  EXPECT_DOUBLE_EQ(sample.elapsed_s, 3);
}

TEST(Sampler, ReadsTheClocks) {
  const Moment first = now(), second = now();
  EXPECT_GE(second.steady_ns, first.steady_ns);
  EXPECT_GT(first.wall_ns, 1'600'000'000'000'000'000u);
}

}  // namespace
}  // namespace mdl::values
