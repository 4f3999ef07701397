// `main` from the code at the entry point, as compilers and linkers leave it.
#include "runtime/image/main_function.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace mdl::image {
namespace {

constexpr uint64_t kStart = 0x1000;

std::optional<uint64_t> main_in(std::vector<uint8_t> code, uint64_t word = 0) {
  code.resize(128, 0xcc);
  std::vector<std::byte> bytes(code.size() + 8);
  std::memcpy(bytes.data(), code.data(), code.size());
  std::memcpy(bytes.data() + code.size(), &word, sizeof word);
  const std::vector<std::byte> entry(bytes.begin(), bytes.end() - 8);
  return main_from_entry(entry, kStart, BufferMemory(std::move(bytes), kStart));
}

TEST(MainFunction, PositionIndependent) {
  // xor %ebp,%ebp; lea 0x100(%rip),%rdi; call *0(%rip)
  EXPECT_EQ(main_in({0x31, 0xed, 0x48, 0x8d, 0x3d, 0, 1, 0, 0, 0xff, 0x15, 0, 0, 0, 0}), kStart + 9 + 0x100);
}

TEST(MainFunction, AtItsAddress) {
  // mov $0x402700,%rdi; call
  EXPECT_EQ(main_in({0x48, 0xc7, 0xc7, 0, 0x27, 0x40, 0, 0xe8, 0, 0, 0, 0}), 0x402700u);
}

TEST(MainFunction, FromTheTableOfAddresses) {
  // mov 0x79(%rip),%rdi: the word behind the code; call
  EXPECT_EQ(main_in({0x48, 0x8b, 0x3d, 0x79, 0, 0, 0, 0xe8, 0, 0, 0, 0}, 0x5555), 0x5555u);
}

TEST(MainFunction, WhatIsNotUnderstood) {
  EXPECT_FALSE(main_in({0xe8, 0, 0, 0, 0}));                                // no argument
  EXPECT_FALSE(main_in({0x48, 0xc7, 0xc7, 0, 0x27, 0x40, 0, 0xeb, 0x10}));  // a jump before the call
  EXPECT_FALSE(main_in({0x48, 0xc7, 0xc7, 0, 0x27, 0x40, 0, 0x5f, 0xe8, 0, 0, 0, 0}));  // pop %rdi
  EXPECT_FALSE(main_in({0x48, 0x8b, 0x3d, 0, 0, 0x10, 0, 0xe8, 0, 0, 0, 0}));           // not mapped
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> code(128);
    for (uint8_t& byte : code) byte = static_cast<uint8_t>(random());
    (void)main_in(code);
  }
}

}  // namespace
}  // namespace mdl::image
