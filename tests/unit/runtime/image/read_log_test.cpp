#include "runtime/image/read_log.h"

#include <gtest/gtest.h>

#include <cstring>

namespace mdl::image {
namespace {

constexpr uint64_t kBase = 0x10000, kCode = 0x400000;

class ReadLogTest : public ::testing::Test {
 protected:
  ReadLogTest() : bytes_(3 * 4096) {
    for (size_t i = 0; i < bytes_.size(); i++) bytes_[i] = static_cast<std::byte>(i * 7 >> 3);
  }
  void read(uint64_t address, size_t size) {
    std::vector<std::byte> into(size);
    const BufferMemory memory(bytes_, kBase);
    (void)LoggedMemory(memory, &log_).read(address, into);
  }
  bool is_same(const std::vector<std::byte>& other, uint64_t base = kBase) const {
    return log_.is_true_of(BufferMemory(other, base),
                           [](uint64_t address) { return address >= kCode && address < kCode + 0x1000; });
  }
  std::vector<std::byte> with(uint64_t address, uint64_t word) const {
    std::vector<std::byte> out = bytes_;
    std::memcpy(out.data() + (address - kBase), &word, sizeof word);
    return out;
  }

  std::vector<std::byte> bytes_;
  ReadLog log_;
};

TEST_F(ReadLogTest, WhatWasReadMustBeTheSame) {
  read(kBase + 4090, 12);  // in two pages
  read(kBase + 8192, 64);
  EXPECT_TRUE(is_same(bytes_));
  EXPECT_FALSE(is_same(with(kBase + 4083, 1)));  // its last byte
  EXPECT_FALSE(is_same(with(kBase + 4101, 1)));
  EXPECT_FALSE(is_same(with(kBase + 8248, 1)));
}

TEST_F(ReadLogTest, WhatWasNotReadMayDiffer) {
  read(kBase + 4090, 12);
  EXPECT_TRUE(is_same(with(kBase + 4082, 1)));
  EXPECT_TRUE(is_same(with(kBase + 4102, 1)));
}

TEST_F(ReadLogTest, WhatWasReadIsKept) {
  read(kBase + 128, 8);
  const std::vector<std::byte> then = bytes_;
  bytes_ = with(kBase + 128, 1);
  EXPECT_TRUE(is_same(then));
  EXPECT_FALSE(is_same(bytes_));
  read(kBase + 128, 8);  // and is something else now: nobody knows what was found out from which
  EXPECT_FALSE(is_same(then));
  EXPECT_FALSE(is_same(bytes_));
}

TEST_F(ReadLogTest, WhatCannotBeReadCannotBeReadInTheOther) {
  read(kBase + 2 * 4096, 4096);
  std::vector<std::byte> shorter(bytes_.begin(), bytes_.end() - 64);
  EXPECT_FALSE(is_same(shorter));
  read(kBase - 4096, 8);
  EXPECT_TRUE(is_same(bytes_));
  std::vector<std::byte> longer(4096);
  longer.insert(longer.end(), bytes_.begin(), bytes_.end());
  EXPECT_FALSE(is_same(longer, kBase - 4096));
}

TEST_F(ReadLogTest, PlacesMayDifferThatAreNoCode) {
  bytes_ = with(kBase + 128, kCode + 8);
  bytes_ = with(kBase + 256, 5);
  log_.note_place(kBase + 128, 8, 0, kCode + 8);
  log_.note_place(kBase + 256, 8, 0, 5);
  EXPECT_TRUE(is_same(bytes_));
  EXPECT_TRUE(is_same(with(kBase + 256, 6)));
  EXPECT_FALSE(is_same(with(kBase + 256, kCode)));
  EXPECT_FALSE(is_same(with(kBase + 128, kCode + 16)));
  EXPECT_FALSE(is_same(with(kBase + 128, 0)));
}

TEST_F(ReadLogTest, DistancesHaveASign) {
  const auto distance = [](int32_t value) { return static_cast<uint64_t>(static_cast<uint32_t>(value)); };
  bytes_ = with(kBase + 128, distance(-16));
  log_.note_place(kBase + 128, 4, kCode + 0x100, kCode + 0xf0);
  EXPECT_TRUE(is_same(bytes_));
  EXPECT_FALSE(is_same(with(kBase + 128, distance(-20))));
  EXPECT_TRUE(is_same(with(kBase + 128, distance(-16) | uint64_t{1} << 40)));
}

}  // namespace
}  // namespace mdl::image
