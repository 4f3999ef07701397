#include "runtime/image/block_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mdl::image {
namespace {

constexpr uint64_t kBlock = 64 * 1024;

// Counts how often it is read; holds bytes from `base` on, each the low byte of its address.
class Counting final : public Memory {
 public:
  Counting(uint64_t base, uint64_t size) : base_(base), size_(size) {}
  bool read(uint64_t address, std::span<std::byte> into) const override {
    ++reads;
    if (address < base_ || address - base_ > size_ || into.size() > size_ - (address - base_)) return false;
    for (std::byte& one : into) one = static_cast<std::byte>(address++ + shift);
    return true;
  }
  mutable int reads = 0;
  uint64_t shift = 0;

 private:
  uint64_t base_, size_;
};

std::vector<uint8_t> bytes_at(const Memory& memory, uint64_t address, size_t size) {
  std::vector<uint8_t> out(size);
  return memory.read(address, std::as_writable_bytes(std::span(out))) ? out : std::vector<uint8_t>();
}

TEST(BlockMemory, ReadsABlockOnce) {
  Counting counting(kBlock, 2 * kBlock);
  BlockMemory memory(counting);
  EXPECT_EQ(bytes_at(memory, kBlock + 5, 3), (std::vector<uint8_t>{5, 6, 7}));
  counting.shift = 1;  // what was read stays
  EXPECT_EQ(bytes_at(memory, kBlock + 6, 2), (std::vector<uint8_t>{6, 7}));
  EXPECT_EQ(counting.reads, 1);
}

TEST(BlockMemory, JoinsBlocks) {
  Counting counting(kBlock, 2 * kBlock);
  BlockMemory memory(counting);
  EXPECT_EQ(bytes_at(memory, 2 * kBlock - 2, 4), (std::vector<uint8_t>{0xfe, 0xff, 0, 1}));
  EXPECT_EQ(counting.reads, 2);
}

TEST(BlockMemory, KeepsNothingOfLargeReads) {
  Counting counting(kBlock, 2 * kBlock);
  BlockMemory memory(counting);
  EXPECT_EQ(bytes_at(memory, kBlock, 2 * kBlock).size(), 2 * kBlock);
  counting.shift = 1;
  EXPECT_EQ(bytes_at(memory, kBlock, 2 * kBlock)[0], 1);
}

// The last block of a mapping is rarely whole.
TEST(BlockMemory, ReadsWhatIsThereOfABlock) {
  Counting counting(kBlock, kBlock + 100);
  BlockMemory memory(counting);
  EXPECT_EQ(bytes_at(memory, 2 * kBlock + 98, 2), (std::vector<uint8_t>{98, 99}));
  EXPECT_EQ(bytes_at(memory, 2 * kBlock - 1, 3), (std::vector<uint8_t>{0xff, 0, 1}));
  EXPECT_TRUE(bytes_at(memory, 2 * kBlock + 98, 3).empty());
  EXPECT_TRUE(bytes_at(memory, kBlock - 1, 2).empty());
}

TEST(BlockMemory, ReadsAtTheEndOfAddresses) {
  Counting counting(kBlock, kBlock);
  BlockMemory memory(counting);
  EXPECT_TRUE(bytes_at(memory, UINT64_MAX - 7, 8).empty());
}

}  // namespace
}  // namespace mdl::image
