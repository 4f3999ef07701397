#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "runtime/arch/decoder.h"

namespace mdl::image {
namespace {

std::optional<arch::CfiEntry> read(std::initializer_list<int> bytes, uint64_t address) {
  std::vector<std::byte> list;
  for (int one : bytes) list.push_back(static_cast<std::byte>(one));
  return arch::read_cfi_entry(list, address);
}

TEST(CfiEntries, AreJumpsFilledUpWithTraps) {
  // jmp 0x1c60; int3; int3; int3 at 0x1e20, and what comes next.
  std::optional<arch::CfiEntry> entry =
      read({0xe9, 0x3b, 0xfe, 0xff, 0xff, 0xcc, 0xcc, 0xcc, 0xe9, 0x43}, 0x1e20);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->size, 8u);
  EXPECT_EQ(entry->target, 0x1c60u);
  // endbr64; jmp 0x2109; int3...
  entry = read({0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0, 1, 0, 0, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc}, 0x2000);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->size, 16u);
  EXPECT_EQ(entry->target, 0x2109u);
}

TEST(CfiEntries, NothingElseIs) {
  EXPECT_FALSE(read({0xe9, 0, 1, 0, 0, 0xcc, 0xcc, 0xcc}, 0x2004)) << "between two entries";
  EXPECT_FALSE(read({0xe9, 0, 1, 0, 0, 0xcc, 0xcc, 0xc3}, 0x2000)) << "code behind the jump";
  EXPECT_FALSE(read({0xe8, 0, 1, 0, 0, 0xcc, 0xcc, 0xcc}, 0x2000)) << "a call";
  EXPECT_FALSE(read({0xe9, 0, 1, 0, 0, 0xcc, 0xcc}, 0x2000)) << "cut short";
  EXPECT_FALSE(read({0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 0, 1, 0, 0, 0xcc, 0xcc, 0xcc}, 0x2000)) << "cut short";
  EXPECT_FALSE(read({}, 0x2000));
}

}  // namespace
}  // namespace mdl::image
