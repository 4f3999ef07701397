// Keys: the resident routine run in this process on a table and a block of its own, and the reader on what it
// left and on memory that somebody has written over.
#include "runtime/values/keys.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "runtime/arch/bytes.h"
#include "runtime/arch/resident.h"
#include "runtime/arch/target_data.h"
#include "runtime/resident/journal.h"
#include "runtime/resident/key_table.h"
#include "runtime/session/request_values.h"
#include "runtime/values/spans.h"

namespace mdl {
namespace {

using format::KeyChange;
using Totals = std::map<values::KeyOf, int64_t>;

Totals plain(const std::map<values::KeyOf, values::KeyTotal>& totals) {
  Totals out;
  for (const auto& [of, total] : totals) out[of] = total.value;
  return out;
}

constexpr uint64_t kBase = 64, kKey = 72, kChange = 80, kFurtherKeys = 88, kKeys = 128, kStride = 1024;

// This process's memory, as the reader sees a target's.
class OwnMemory final : public image::Memory {
 public:
  bool read(uint64_t address, std::span<std::byte> into) const override {
    std::memcpy(into.data(), reinterpret_cast<const void*>(address), into.size());
    return true;
  }
};

class Keys : public testing::Test {
 protected:
  void make(uint64_t most, uint32_t slots = 1, bool by_thread = false,
            format::CellKind kind = format::CellKind::counter) {
    shape_.kind = kind;
    by_thread_ = by_thread;
    shape_.most = most;
    table_.assign(shape_.size() / 8 + 1, 0);
    std::vector<uint64_t> of = {kKey};
    while (of.size() < shape_.text_keys) of.push_back(kFurtherKeys + (of.size() - 1) * 8);
    const resident::KeyTableHeaders headers =
        resident::key_table_headers(shape_, kKeys, of, kChange, kBase, by_thread);
    std::ranges::copy(headers.first, table_.begin());
    if (const uint64_t own = headers.own_at())
      std::ranges::copy(headers.own, table_.begin() + static_cast<std::ptrdiff_t>(own / 8));
    layout_.slots = slots;
    layout_.stride = kStride;
    data_.assign(slots * 2 + (slots + 1) * kStride / 8, 0);
    layout_.directory = reinterpret_cast<uint64_t>(data_.data());
    layout_.blocks = layout_.directory + slots * 16;
    for (uint64_t i = 0; i < slots; ++i)
      data_[i * 2] = i + 1, data_[i * 2 + 1] = layout_.blocks + i * kStride;
    const arch::Bytes code = arch::resident_code(parameters_);
    code_ = static_cast<uint8_t*>(
        mmap(nullptr, 16384, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(code_, MAP_FAILED);
    ASSERT_LE(code.size(), 16384u);
    std::memcpy(code_, code.data(), code.size());
  }
  void TearDown() override {
    if (code_) munmap(code_, 16384);
  }

  uint64_t* block(uint64_t slot = 0) { return reinterpret_cast<uint64_t*>(layout_.blocks + slot * kStride); }
  void hit(int64_t amount = 1, uint64_t slot = 0) { block(slot)[kBase / 8] += static_cast<uint64_t>(amount); }

  void change(KeyChange what, int64_t key, uint64_t frame = 0, uint64_t slot = 0) {
    block(slot)[kChange / 8] = static_cast<uint64_t>(what);
    block(slot)[kKey / 8] = static_cast<uint64_t>(key);
    const void* routine = code_ + arch::keys_offset();
    asm volatile(
        "mov %[frame], %%rbx; mov %[block], %%r11; mov %[table], %%r10; mov %[routine], %%rax\n"
        "lea -128(%%rsp), %%rsp; push %%rbx; call *%%rax; lea 136(%%rsp), %%rsp"
        :
        : [frame] "r"(frame), [block] "r"(block(slot)), [table] "r"(table_.data()), [routine] "r"(routine)
        : "rax", "rbx", "r10", "r11", "memory", "cc");
  }

  // Adds `amount` for these texts.
  void add(std::vector<const char*> texts, int64_t amount) {
    const auto address = [](const char* text) { return reinterpret_cast<uint64_t>(text); };
    for (size_t i = 1; i < texts.size(); ++i) block()[kFurtherKeys / 8 + i - 1] = address(texts[i]);
    block()[kBase / 8] = static_cast<uint64_t>(amount);
    change(KeyChange::add, static_cast<int64_t>(address(texts[0])));
  }
  // What all of them have counted, by their texts.
  std::map<std::vector<std::string>, int64_t> by_text() {
    values::KeyReader reader(layout_, place());
    EXPECT_TRUE(reader.read(OwnMemory()));
    std::map<std::vector<std::string>, int64_t> out;
    for (const auto& [of, total] : reader.last().totals) {
      std::vector<std::string> texts = {reader.text(of.key)};
      for (size_t i = 1; i < shape_.text_keys; ++i) texts.push_back(reader.text(of.more[i - 1]));
      EXPECT_TRUE(out.try_emplace(texts, total.value).second) << texts[0];
    }
    return out;
  }

  values::KeyPlace place() const {
    resident::JournalTable table;
    table.names = names_;
    if (names_.empty()) table.names.assign(shape_.text_keys, format::KeyName::str);
    table.at.start = reinterpret_cast<uint64_t>(table_.data());
    table.most = shape_.most;
    table.keys = kKeys;
    table.base = kBase;
    table.by_thread = by_thread_;
    table.kind = shape_.kind;
    return inject::key_place(table);
  }
  values::KeyValues values() {
    values::KeyReader reader(layout_, place());
    auto read = reader.read(OwnMemory());
    EXPECT_TRUE(read) << read.error().text;
    return reader.last();
  }

  resident::KeyTableShape shape_;
  std::vector<format::KeyName> names_;  // where they are not texts at addresses
  std::vector<uint64_t> table_, data_;
  values::BlockLayout layout_;
  std::vector<uint64_t> header_ = std::vector<uint64_t>(kHeaderSize / 8);
  arch::ResidentParameters parameters_ = {.header = reinterpret_cast<uint64_t>(header_.data())};
  uint8_t* code_ = nullptr;
  bool by_thread_ = false;
};

TEST_F(Keys, EachCountsWhileItIsActive) {
  make(16);
  change(KeyChange::raise, 5);
  hit();
  change(KeyChange::raise, -1);
  hit(10);
  EXPECT_EQ(plain(values().totals), (Totals{{{5}, 11}, {{-1}, 10}}));
  change(KeyChange::lower_key, 5);
  hit(100);
  EXPECT_EQ(plain(values().totals), (Totals{{{5}, 11}, {{-1}, 110}}));
  change(KeyChange::lower_all, 0);
  hit(1000);
  EXPECT_EQ(plain(values().totals), (Totals{{{5}, 11}, {{-1}, 110}}));
}

// A memory that ends after so many reads.
class Ending final : public image::Memory {
 public:
  explicit Ending(size_t reads) : left_(reads) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    return left_ > 0 && left_-- > 0 && OwnMemory().read(address, into);
  }

 private:
  mutable size_t left_;
};

// What one reader has read before does not matter for what it reads next, nor does a read that fails half-way.
TEST_F(Keys, AreReadAgainAndAgain) {
  make(16);
  values::KeyReader reader(layout_, place());
  Totals truth;
  for (int64_t round = 1; round <= 8; ++round) {
    bool ended = true;
    for (size_t reads = 0; ended; ++reads) {
      const Ending ending(reads);
      const bool could = reader.read(ending).operator bool();
      ended = !could;
      if (!could) {
        EXPECT_EQ(plain(reader.last().totals), truth) << reads;
      }
    }
    for (int64_t key = 0; key < round; ++key) {
      change(KeyChange::raise, key * 977);
      hit(round);
      change(KeyChange::lower_all, 0);
      truth[{key * 977}] += round;
    }
    ASSERT_TRUE(reader.read(OwnMemory()));
    EXPECT_EQ(plain(reader.last().totals), truth);
  }
}

// A thread takes a total, fills it, and says so: until then there is no key.
TEST_F(Keys, ATotalThatIsBeingFilledIsNobodys) {
  make(16);
  change(KeyChange::raise, 5);
  const auto word = [&](uint64_t number, uint64_t at) -> uint64_t& {
    return table_[(shape_.totals() + number * kTotalSize + at) / 8];
  };
  table_[kTableUsed / 8] = 3;
  word(2, 0) = 7;
  values::KeyReader reader(layout_, place());
  ASSERT_TRUE(reader.read(OwnMemory()));
  EXPECT_EQ(plain(reader.last().totals), (Totals{{{5}, 0}}));
  word(3, 0) = 9, word(3, 8) = 2, word(3, kTotalOwner) = kAnyThreads;
  ASSERT_TRUE(reader.read(OwnMemory()));
  EXPECT_EQ(plain(reader.last().totals), (Totals{{{5}, 0}, {{9}, 2}}));
  word(2, kTotalOwner) = kAnyThreads;
  ASSERT_TRUE(reader.read(OwnMemory()));
  EXPECT_EQ(plain(reader.last().totals), (Totals{{{5}, 0}, {{7}, 0}, {{9}, 2}}));
}

// A memory in which a total is filled while it is read: its first words are those of before, the last one is not.
class Torn final : public image::Memory {
 public:
  explicit Torn(uint64_t total) : total_(total) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    const bool done = OwnMemory().read(address, into);
    const uint64_t end = total_ + kTotalOwner;
    if (!torn_ && address <= total_ && address + into.size() > end) {
      torn_ = true;
      std::fill_n(into.begin() + static_cast<std::ptrdiff_t>(total_ - address), kTotalOwner, std::byte{});
    }
    return done;
  }

 private:
  uint64_t total_;
  mutable bool torn_ = false;
};

TEST_F(Keys, ATotalThatIsFilledMeanwhileIsReadWhole) {
  for (const format::CellKind kind : {format::CellKind::counter, format::CellKind::histogram}) {
    make(16, 1, false, kind);
    block()[kBase / 8] = 3;
    change(*format::key_change(kind), 5);
    for (const uint64_t total :
         {shape_.totals() + shape_.others() * kTotalSize, shape_.own() + shape_.own_totals() + kTotalSize}) {
      values::KeyReader reader(layout_, place());
      ASSERT_TRUE(reader.read(Torn(reinterpret_cast<uint64_t>(table_.data()) + total)));
      const values::KeyValues& last = reader.last();
      EXPECT_EQ(kind == format::CellKind::counter ? last.totals.size() : last.observed.size(), 1u);
      EXPECT_TRUE(kind == format::CellKind::counter ? last.totals.contains({5})
                                                    : last.observed.contains({5}));
    }
  }
}

TEST_F(Keys, RaisesCountAndSetsDoNot) {
  make(16);
  for (KeyChange raise : {KeyChange::raise, KeyChange::set}) {
    const int64_t key = static_cast<int64_t>(raise);
    change(raise, key);
    change(raise, key);
    change(KeyChange::lower_all, 0);
    hit();
    EXPECT_EQ(plain(values().totals)[{key}], raise == KeyChange::raise) << key;
    change(KeyChange::clear_all, 0);
    hit();
    EXPECT_EQ(plain(values().totals)[{key}], raise == KeyChange::raise) << key;
  }
}

TEST_F(Keys, WhatIsObservedIsAKeysAtOnce) {
  using enum format::CellKind;
  const auto all = [&](format::CellKind kind, std::initializer_list<std::pair<int, int64_t>> values) {
    make(kind == histogram ? 3 : 2, 1, false, kind);
    for (const auto& [key, value] : values) {
      block()[kBase / 8] = static_cast<uint64_t>(value);
      change(*format::key_change(kind), key);
    }
    return this->values();
  };
  const auto of = [](const values::Observations& one, format::CellKind kind) {
    return std::pair(one.count, one.value(kind));
  };
  using Pair = std::pair<uint64_t, int64_t>;
  values::KeyValues now = all(minimum, {{5, 3}, {5, -4}, {5, INT64_MAX}, {6, INT64_MIN}, {7, 8}, {8, -1}});
  EXPECT_EQ(of(now.observed[{5}], minimum), Pair(3, -4));
  EXPECT_EQ(of(now.observed[{6}], minimum), Pair(1, INT64_MIN));
  EXPECT_EQ(of(now.others_observed, minimum), Pair(2, -1));
  now = all(maximum, {{5, 3}, {5, -4}, {6, INT64_MIN}, {7, 8}});
  EXPECT_EQ(of(now.observed[{5}], maximum), Pair(2, 3));
  EXPECT_EQ(of(now.observed[{6}], maximum), Pair(1, INT64_MIN));
  EXPECT_EQ(of(now.others_observed, maximum), Pair(1, 8));
  now = all(average, {{5, 3}, {5, -4}, {5, 10}});
  EXPECT_EQ(of(now.observed[{5}], average), Pair(3, 3));
  EXPECT_FALSE(now.others);
  now = all(histogram, {{5, 3}, {5, 3}, {5, int64_t{1} << 60}, {6, -9}, {6, 4}, {7, 3}});
  EXPECT_EQ(now.observed[{5}].distribution.sum, 6 + (int64_t{1} << 60));
  using Buckets = std::vector<values::Bucket>;
  EXPECT_EQ(now.observed[{5}].distribution.buckets, (Buckets{{3, 2}, {format::kHistogramBuckets - 1, 1}}));
  EXPECT_EQ(now.observed[{6}].distribution.buckets, (Buckets{{0, 1}}));
  EXPECT_EQ(now.others_observed.distribution.buckets, (Buckets{{3, 1}, {4, 1}}));
  EXPECT_EQ(now.others_observed.distribution.sum, 7);
  EXPECT_TRUE(now.totals.empty());
}

// A plan is believed nothing: code may leave any change.
TEST_F(Keys, ATableOfCountersHasNoPartsForOthers) {
  make(1);
  const std::vector<uint64_t> before = table_;
  for (const int key : {5, 6, 7}) {
    block()[kBase / 8] = uint64_t{1} << 60;
    change(KeyChange::observe, key);
  }
  EXPECT_EQ(values().others_total, int64_t{1} << 61);
  EXPECT_EQ(table_.back(), before.back());
}

TEST_F(Keys, WhatIsAddedIsAKeysAtOnce) {
  make(2);
  for (const auto& [key, amount] : {std::pair{5, 3}, {-1, -7}, {5, 4}, {6, 20}}) {
    block()[kBase / 8] = static_cast<uint64_t>(int64_t{amount});
    change(KeyChange::add, key);
  }
  const values::KeyValues now = values();
  EXPECT_EQ(plain(now.totals), (Totals{{{5}, 7}, {{-1}, -7}}));
  EXPECT_TRUE(now.others);
  EXPECT_EQ(now.others_total, 20);
  EXPECT_EQ(now.more, 0u);
}

TEST_F(Keys, SeveralTextsAreReadEach) {
  using Truth = std::map<std::vector<std::string>, int64_t>;
  char moves[8] = "a";
  shape_.text_keys = 2;
  make(4);
  add({moves, "b"}, 1);
  std::strcpy(moves, "b");
  add({moves, "a"}, 10);
  add({"a", "b"}, 100);
  add({"a", "a"}, 1000);
  add({nullptr, "a"}, 10000);
  add({"a", nullptr}, 100000);
  EXPECT_EQ(
      by_text(),
      (Truth{{{"a", "b"}, 101}, {{"b", "a"}, 10}, {{"a", "a"}, 1000}, {{"<bad address>", "a"}, 10000}}));
  EXPECT_EQ(values().others_total, 100000);
  shape_.text_keys = 3;
  make(3);
  add({"a", "b", "c"}, 1);
  add({"a", "c", "b"}, 2);
  add({"c", "b", "a"}, 4);
  add({"a", "b", "c"}, 8);
  EXPECT_EQ(by_text(), (Truth{{{"a", "b", "c"}, 9}, {{"a", "c", "b"}, 2}, {{"c", "b", "a"}, 4}}));
  EXPECT_FALSE(values().others);
}

// A plan is believed nothing: code may raise a key that is a text.
TEST_F(Keys, ATextIsNeverActive) {
  shape_.text_keys = 1;
  make(4);
  change(KeyChange::raise, 5);
  hit();
  EXPECT_TRUE(values().totals.empty());
}

TEST_F(Keys, TheOutermostFrameLeavesNothing) {
  make(16);
  change(KeyChange::raise, 7, 1000);
  change(KeyChange::raise, 7, 900);  // a frame that will vanish
  change(KeyChange::lower_all, 0, 1000);
  hit();
  EXPECT_EQ(plain(values().totals)[{7}], 0);
}

TEST_F(Keys, ValuesOfAllKinds) {
  make(16);
  for (int64_t key : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{32}, int64_t{64}}) {
    change(KeyChange::set, key);
    hit();
    change(KeyChange::clear_key, key);
    hit();
  }
  EXPECT_EQ(plain(values().totals),
            (Totals{{{0}, 1}, {{-1}, 1}, {{INT64_MIN}, 1}, {{INT64_MAX}, 1}, {{32}, 1}, {{64}, 1}}));
}

TEST_F(Keys, MoreThanTheTableHolds) {
  make(100);
  for (int64_t key = 0; key < 250; ++key) {
    change(KeyChange::raise, key * 65536);
    hit();
    change(KeyChange::lower_all, 0);
  }
  const values::KeyValues got = values();
  EXPECT_EQ(got.totals.size(), 100u);
  for (const auto& [key, total] : plain(got.totals)) EXPECT_EQ(total, 1) << key.key;
  EXPECT_TRUE(got.others);
  EXPECT_EQ(got.others_total, 150);
}

TEST_F(Keys, MoreThanEightActive) {
  make(100);
  for (int64_t key = 0; key < 10; ++key) change(KeyChange::raise, key);
  hit();
  const values::KeyValues got = values();
  EXPECT_EQ(got.totals.size(), 8u);
  EXPECT_EQ(got.more, 2u);
  EXPECT_EQ(block()[0], 2u);  // anomalies
}

TEST_F(Keys, ThreadsMeetAtTheSameKeys) {
  constexpr uint64_t kThreads = 4, kRounds = 20000;
  make(4096, kThreads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([this, t] {
      std::mt19937_64 random(7);  // the same keys in the same order
      for (uint64_t i = 0; i < kRounds; ++i) {
        change(KeyChange::raise, static_cast<int64_t>(random() % 1000) * 4096, 0, t);
        hit(1, t);
        change(KeyChange::lower_all, 0, 0, t);
      }
    });
  for (std::thread& thread : threads) thread.join();
  Totals truth;
  std::mt19937_64 random(7);
  for (uint64_t i = 0; i < kRounds; ++i) truth[{static_cast<int64_t>(random() % 1000) * 4096}] += kThreads;
  EXPECT_EQ(plain(values().totals), truth);
}

// What totals of the second table there are, by owner: how many, and what they have counted.
std::map<uint64_t, std::pair<uint64_t, uint64_t>> owned(const std::vector<uint64_t>& table,
                                                        const resident::KeyTableShape& shape) {
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> out;
  const uint64_t* own = &table[shape.own() / 8];
  for (uint64_t i = 1; i <= own[kTableUsed / 8]; ++i) {
    const uint64_t* one = &own[(shape.own_totals() + i * kTotalSize) / 8];
    auto& [number, sum] = out[one[kTotalOwner / 8]];
    number += 1, sum += one[1];
  }
  return out;
}

TEST_F(Keys, ThreadsAddToTotalsOfTheirOwn) {
  constexpr uint64_t kThreads = 4, kRounds = 50000;
  for (const format::CellKind kind : {format::CellKind::counter, format::CellKind::histogram}) {
    make(4096, kThreads, false, kind);
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        std::mt19937_64 random(7);  // the same keys in the same order
        for (uint64_t i = 0; i < kRounds; ++i) {
          block(t)[kBase / 8] = t + 1;
          change(*format::key_change(kind), static_cast<int64_t>(random() % 100) * 977, 0, t);
        }
      });
    for (std::thread& thread : threads) thread.join();
    std::map<int64_t, uint64_t> calls;
    std::mt19937_64 random(7);
    for (uint64_t i = 0; i < kRounds; ++i) calls[static_cast<int64_t>(random() % 100) * 977]++;
    const values::KeyValues got = values();
    EXPECT_FALSE(got.others);
    for (const auto& [key, number] : calls) {
      if (kind == format::CellKind::counter) {
        EXPECT_EQ(got.totals.at({key}).value, number * (1 + 2 + 3 + 4));
      } else {
        const values::Distribution& one = got.observed.at({key}).distribution;
        EXPECT_EQ(one.sum, number * (1 + 2 + 3 + 4));
        ASSERT_EQ(one.buckets.size(), kThreads);
        for (const values::Bucket& bucket : one.buckets) EXPECT_EQ(bucket.count, number);
      }
    }
    const auto own = owned(table_, shape_);
    ASSERT_EQ(own.size(), kThreads);  // nothing went another way
    for (uint64_t t = 0; t < kThreads; ++t)
      EXPECT_EQ(own.at(reinterpret_cast<uint64_t>(block(t))), std::pair(calls.size(), kRounds * (t + 1)));
  }
}

TEST_F(Keys, WithoutRoomForTotalsOfTheirOwn) {
  constexpr uint64_t kThreads = 60;
  make(3, kThreads);  // own ones for 48
  for (int round = 0; round < 3; ++round)
    for (uint64_t t = 0; t < kThreads; ++t)
      for (int64_t key = 0; key < 5; ++key) {
        block(t)[kBase / 8] = 1;
        change(KeyChange::add, key, 0, t);
      }
  const values::KeyValues got = values();
  EXPECT_EQ(plain(got.totals), (Totals{{{0}, kThreads * 3}, {{1}, kThreads * 3}, {{2}, kThreads * 3}}));
  EXPECT_EQ(got.others_total, kThreads * 3 * 2);  // keys are as many as they may be
  uint64_t own = 0;
  for (const auto& [owner, totals] : owned(table_, shape_)) own += totals.first;
  EXPECT_EQ(own, 3 * resident::kOwnOfKey);
}

TEST_F(Keys, OfManyKeysNoneIsAThreads) {
  constexpr int64_t kKeys = 3 * static_cast<int64_t>(kOwnKeys);
  make(kKeys);
  for (int round = 0; round < 2; ++round)
    for (int64_t key = 0; key < kKeys; ++key) {
      block()[kBase / 8] = 1;
      change(KeyChange::add, key);
    }
  const values::KeyValues got = values();
  ASSERT_EQ(got.totals.size(), kKeys);
  for (const auto& [key, total] : plain(got.totals)) ASSERT_EQ(total, 2) << key.key;
  EXPECT_LE(owned(table_, shape_).at(reinterpret_cast<uint64_t>(block())).first, kOwnKeys + 1);
}

TEST_F(Keys, ABlockOfSeveralThreadsOwnsNothing) {
  make(16, 1);
  parameters_.overflow_block = reinterpret_cast<uint64_t>(block());
  const arch::Bytes code = arch::resident_code(parameters_);
  std::memcpy(code_, code.data(), code.size());
  for (int i = 0; i < 5; ++i) {
    block()[kBase / 8] = 1;
    change(KeyChange::add, 7);
  }
  EXPECT_EQ(plain(values().totals), (Totals{{{7}, 5}}));
  EXPECT_TRUE(owned(table_, shape_).empty());
}

TEST_F(Keys, EachThreadHasTotalsOfItsOwn) {
  make(16, 2, true);
  for (uint64_t thread : {uint64_t{0}, uint64_t{1}}) {
    block(thread)[kBlockThread / 8] = 100 + thread;
    change(KeyChange::raise, 5, 0, thread);
    change(KeyChange::raise, static_cast<int64_t>(thread), 0, thread);
    hit(static_cast<int64_t>(1 + thread), thread);
  }
  const Totals truth{{{5, 100}, 1}, {{5, 101}, 2}, {{0, 100}, 1}, {{1, 101}, 2}};
  EXPECT_EQ(plain(values().totals), truth);  // while they are active,
  for (uint64_t thread : {uint64_t{0}, uint64_t{1}}) change(KeyChange::lower_all, 0, 0, thread);
  hit(7);
  EXPECT_EQ(plain(values().totals), truth);  // and settled
}

TEST_F(Keys, AReaderOfGarbage) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    shape_.text_keys = static_cast<uint64_t>(i) % 4;
    make(64, 4);
    for (uint64_t& word : table_) word = random();
    for (uint64_t& word : data_) word = random();
    values::KeyReader reader(layout_, place());
    ASSERT_TRUE(reader.read(OwnMemory()));
    EXPECT_LE(reader.last().totals.size(), 64u + 64 * resident::kOwnOfKey + 5 * 8);
  }
}

TEST(Spans, OpenAndClosed) {
  for (int64_t total : {int64_t{0}, int64_t{5}, int64_t{-7}, int64_t{1} << 60})
    for (int64_t base : {int64_t{0}, int64_t{9}, int64_t{-3}, int64_t{1} << 59}) {
      const uint64_t open = values::open_span(static_cast<uint64_t>(total), static_cast<uint64_t>(base));
      EXPECT_TRUE(values::is_open(open));
      EXPECT_FALSE(values::is_open(static_cast<uint64_t>(total)));
      EXPECT_EQ(values::span_value(open, static_cast<uint64_t>(base + 4)), total + 4);
      EXPECT_EQ(values::span_value(static_cast<uint64_t>(total), static_cast<uint64_t>(base)), total);
    }
}

// What a descriptor is open for, each time: its number is used again.
class DescriptorKeys : public Keys {
 protected:
  void make_for(format::KeyName name) {
    names_ = {name};
    shape_ = resident::KeyTableShape::of(100, format::CellKind::counter, names_);
    make(100);
  }
  void add(int64_t descriptor, int64_t amount) {
    block()[kBase / 8] = static_cast<uint64_t>(amount);
    change(KeyChange::add, descriptor);
  }
  std::map<std::string, int64_t> totals() {
    values::KeyReader reader(layout_, place());
    reader.name_descriptors([](const std::string& text) {
      return text.starts_with("socket:[") ? "/Socket/peer" : "/File" + text;
    });
    EXPECT_TRUE(reader.read(OwnMemory()));
    std::map<std::string, int64_t> out;
    for (const auto& [of, total] : reader.last().totals) out[reader.descriptor(of.key)] += total.value;
    lines_ = reader.last().totals.size();
    return out;
  }
  void use() {
    for (const char* path : {"/dev/null", "/dev/zero"}) {
      const int file = open(path, O_RDONLY | O_CLOEXEC);
      add(file, path[5]);
      close(file);
      add(file, 1);
    }
    for (int i = 0; i < 2; ++i) {
      int pair[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
      add(pair[0], 5);
      close(pair[0]), close(pair[1]);
    }
    for (const int64_t none :
         {int64_t{-1}, int64_t{-100}, INT64_MIN, INT64_MAX, int64_t{1} << 31, int64_t{INT32_MAX}})
      add(none, 1);
  }
  size_t lines_ = 0;
};
constexpr const char* kClosed = "/File<bad descriptor>";

TEST_F(DescriptorKeys, Files) {
  make_for(format::KeyName::file);
  use();
  EXPECT_EQ(totals(),
            (std::map<std::string, int64_t>{{"/File/dev/null", 'n'}, {"/File/dev/zero", 'z'}, {kClosed, 8}}));
  EXPECT_EQ(table_[kTableUsed / 8], 3u);  // sockets take no room
}

TEST_F(DescriptorKeys, Sockets) {
  make_for(format::KeyName::socket);
  use();
  EXPECT_EQ(totals(), (std::map<std::string, int64_t>{{"/Socket/peer", 10}, {kClosed, 8}}));
  EXPECT_EQ(lines_, 2u);  // two sockets of one peer are one
}

TEST_F(DescriptorKeys, Both) {
  make_for(format::KeyName::descriptor);
  use();
  EXPECT_EQ(totals(),
            (std::map<std::string, int64_t>{
                {"/File/dev/null", 'n'}, {"/File/dev/zero", 'z'}, {"/Socket/peer", 10}, {kClosed, 8}}));
}

// In a table that somebody has forged: the hash of a text at an address is that of a descriptor whose text nobody has
// written.
TEST_F(DescriptorKeys, NoneHasTheTextOfAnother) {
  names_ = {format::KeyName::str, format::KeyName::file};
  shape_ = resident::KeyTableShape::of(100, format::CellKind::counter, names_);
  make(100);
  constexpr uint64_t kText = 5, kFile = 6;
  table_[kTableUsed / 8] = 2;
  const std::array<std::array<uint64_t, 2>, 3> keys = {{{0, 0}, {kText, kFile}, {kText, kText}}};
  for (uint64_t i = 1; i <= 2; ++i) {
    uint64_t* const total = &table_[(shape_.totals() + i * kTotalSize) / 8];
    total[0] = keys[i][0], total[1] = i, total[kTotalKey2 / 8] = keys[i][1];
    total[kTotalOwner / 8] = kAnyThreads;
    for (uint64_t k = 0; k < 2; ++k) {
      uint64_t* const text = &table_[(shape_.texts() + (2 * i + k) * kTextSize) / 8];
      text[0] = i == 1 ? 2 : 0, text[1] = 'a' + k;
    }
  }
  values::KeyReader reader(layout_, place());
  ASSERT_TRUE(reader.read(OwnMemory()));
  ASSERT_EQ(reader.last().totals.size(), 1u);
  const values::KeyOf& of = reader.last().totals.begin()->first;
  EXPECT_EQ(reader.text(of.key), "a");
  EXPECT_EQ(reader.descriptor(of.more[0]), "b");
}

// Blocks of the heap, by the sites that allocate them.
class SiteKeys : public Keys {
 protected:
  void SetUp() override {
    names_ = {format::KeyName::site};
    shape_ = resident::KeyTableShape::of(100, format::CellKind::counter, names_);
    make(100);
  }
  void come(uint64_t at, uint64_t site) {
    block()[kBase / 8] = 1;
    change(KeyChange::note, static_cast<int64_t>(at), reinterpret_cast<uint64_t>(&site));
  }
  void go(uint64_t at) {
    block()[kBase / 8] = 0;
    change(KeyChange::note, static_cast<int64_t>(at), reinterpret_cast<uint64_t>(&at));
  }
  void use(uint64_t at, int64_t amount) {
    block()[kBase / 8] = static_cast<uint64_t>(amount);
    change(KeyChange::add, static_cast<int64_t>(at));
  }
};

TEST_F(SiteKeys, ABlockHasItsSiteUntilItGoes) {
  use(0x1000, 1);
  come(0x1000, 7), come(0x7f0000001010, 7);
  use(0x1000, 10), use(0x7f0000001010, 100), use(0x1008, 1);
  come(0x1000, 9);  // grown in place
  use(0x1000, 1000);
  go(0x1000), go(0x1000), go(0x2000), go(0), come(0, 5);
  use(0x1000, 1), use(0, 1);
  EXPECT_EQ(plain(values().totals), (Totals{{{0}, 4}, {{7}, 110}, {{9}, 1000}}));
}

TEST_F(SiteKeys, ABlockWithoutRoomIsUnknown) {
  constexpr uint64_t kFirst = 0x1000, kRoom = kBlockBucket / 8;
  for (uint64_t i = 0; i < kRoom; ++i) come(kFirst + 16 * i, 7);
  constexpr uint64_t kOneMore = kFirst + 8;
  come(kOneMore, 7);
  use(kOneMore, 1);
  for (uint64_t i = 0; i < kRoom; ++i) use(kFirst + 16 * i, 10);
  go(kFirst);
  come(kOneMore, 9);
  use(kOneMore, 100);
  EXPECT_EQ(plain(values().totals), (Totals{{{0}, 1}, {{7}, 80}, {{9}, 100}}));
}

}  // namespace
}  // namespace mdl
