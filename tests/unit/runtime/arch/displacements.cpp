// Sixteen places are looked at together: it must be what one after the other finds.
#include "runtime/arch/x86_64/displacements.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace mdl::arch {
namespace {

using Found = std::vector<std::pair<size_t, uint64_t>>;  // place and target

Found one_by_one(const std::vector<std::byte>& bytes, uint64_t start, const image::Range& within) {
  Found out;
  for (size_t at = 1; at + 4 <= bytes.size(); ++at) {
    int32_t word;
    std::memcpy(&word, &bytes[at], sizeof word);
    const uint64_t target = start + at + 4 + static_cast<uint64_t>(int64_t{word});
    if (target >= within.start && target < within.end) out.emplace_back(at, target);
  }
  return out;
}

Found together(const std::vector<std::byte>& bytes, uint64_t start, const image::Range& within) {
  Found out;
  find_displacements(bytes, start, within, [&](size_t at, uint64_t target) { out.emplace_back(at, target); });
  return out;
}

class Displacements : public testing::Test {
 protected:
  // Half of all bytes are 0 or 0xff, so that many numbers are small.
  std::vector<std::byte> some_bytes(size_t size) {
    std::vector<std::byte> out(size);
    for (std::byte& one : out) {
      const uint32_t number = random_();
      one = static_cast<std::byte>(number % 4 == 0 ? 0 : number % 4 == 1 ? 0xff : number >> 8);
    }
    return out;
  }
  std::mt19937 random_{20};
};

TEST_F(Displacements, AreFoundAsOneByOne) {
  size_t found = 0;
  for (size_t round = 0; round < 4000; ++round) {
    const std::vector<std::byte> bytes = some_bytes(random_() % 200);
    const uint64_t start = round % 2 ? 0x555555554000 + random_() % 4096 : random_() % (1u << 20);
    // From one byte to more than 4 GiB, around the bytes or as far as a displacement leads.
    const uint64_t from =
        start + random_() % (uint64_t{1} << (random_() % 33)) - random_() % (uint64_t{1} << (random_() % 33));
    const image::Range within{from, from + (uint64_t{1} << (random_() % 34)) + random_() % 3};
    if (within.end < within.start) continue;
    const Found expected = one_by_one(bytes, start, within);
    ASSERT_EQ(together(bytes, start, within), expected) << "in round " << round;
    found += expected.size();
  }
  EXPECT_GT(found, 10'000u);
}

TEST_F(Displacements, BytesThatEndAreNotReadPast) {
  for (size_t size = 0; size < 64; ++size) {
    const std::vector<std::byte> bytes =
        some_bytes(size);  // the address sanitizer sees what is read behind them
    const image::Range all{0, UINT32_MAX};
    EXPECT_EQ(together(bytes, 1u << 31, all), one_by_one(bytes, 1u << 31, all));
  }
}

}  // namespace
}  // namespace mdl::arch
