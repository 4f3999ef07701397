#include "runtime/arch/errno_location.h"

#include <gtest/gtest.h>

#include <vector>

namespace mdl::arch {
namespace {

constexpr uint64_t kFunctionAt = 0x401000;

std::optional<ErrnoLocation> located(const std::vector<uint8_t>& code) {
  return errno_location(std::as_bytes(std::span(code)), kFunctionAt);
}

const std::vector<uint8_t> kOfShared = {0x48, 0x8b, 0x05, 0x79, 0xb7, 0x1a, 0x00,  // mov 0x1ab779(%rip), %rax
                                        0x64, 0x48, 0x03, 0x04, 0x25, 0,    0,
                                        0,    0,    0xc3, 0x90};                   // add %fs:0, %rax; ret
const std::vector<uint8_t> kOfStatic = {0xf3, 0x0f, 0x1e, 0xfa,                    // endbr64
                                        0x48, 0xc7, 0xc0, 0xc0, 0xff, 0xff, 0xff,  // mov $-64, %rax
                                        0x64, 0x48, 0x03, 0x04, 0x25, 0,    0,    0, 0, 0xc3};

TEST(ErrnoLocation, OfGlibc) {
  const auto shared = located(kOfShared), in_code = located(kOfStatic);
  ASSERT_TRUE(shared && in_code);
  EXPECT_EQ(shared->slot, kFunctionAt + 7 + 0x1ab779);
  EXPECT_EQ(in_code->slot, 0u);
  EXPECT_EQ(in_code->offset, -64);
}

TEST(ErrnoLocation, NothingElseIsGuessed) {
  // musl: mov %fs:0, %rax; add $0x34, %rax; ret
  EXPECT_FALSE(located({0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x83, 0xc0, 0x34, 0xc3}));
  for (const std::vector<uint8_t>& whole : {kOfShared, kOfStatic}) {
    const size_t size = whole.back() == 0x90 ? whole.size() - 1 : whole.size();
    for (size_t cut = 0; cut < size; ++cut)
      EXPECT_FALSE(located({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)})) << cut;
  }
}

}  // namespace
}  // namespace mdl::arch
