// Functions that are known by their code.
#include "runtime/arch/hooked_code.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace mdl::arch {
namespace {

constexpr uint64_t kStart = 0x4000;

TEST(LandingSetter, IsThatOfLibgcc) {
  const auto is_one = [](std::initializer_list<int> code) {
    std::vector<std::byte> bytes;
    for (const int byte : code) bytes.push_back(static_cast<std::byte>(byte));
    return is_landing_setter(bytes);
  };
  EXPECT_TRUE(is_one({0x48, 0x89, 0xb7, 0x98, 0, 0, 0, 0xc3}));
  EXPECT_TRUE(is_one({0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xb7, 0x98, 0, 0, 0, 0xc3}));
  EXPECT_FALSE(is_one({0x48, 0x89, 0xb7, 0xa0, 0, 0, 0, 0xc3}));  // another place
  EXPECT_FALSE(is_one({0x48, 0x89, 0xb7, 0x98, 0, 0, 0, 0xe9}));  // more code
  EXPECT_FALSE(is_one({0xf3, 0x0f, 0x1e, 0xfa}));
  EXPECT_FALSE(is_one({}));
}

TEST(Hooked, AreFoundByTheirCode) {
  std::vector<std::byte> bytes(128, std::byte{0x90});
  const auto put = [&](size_t at, std::initializer_list<int> code) {
    for (const int byte : code) bytes[at++] = static_cast<std::byte>(byte);
  };
  const std::initializer_list<int> setter = {0x48, 0x89, 0xb7, 0x98, 0, 0, 0, 0xc3};
  put(20, {0xf3, 0x0f, 0x1e, 0xfa}), put(24, setter);  // at no function's place
  put(48, {0xf3, 0x0f, 0x1e, 0xfa}), put(52, setter);  // followed by the one that belongs to it
  put(64, {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x87, 0xa0, 0, 0, 0, 0xc3});
  put(80, setter);  // by another one
  put(100, {0x5f, 0xb8, 58, 0, 0, 0, 0x0f, 0x05, 0x57});
  const auto all = [](Hook) { return true; };
  std::vector<std::pair<Hook, uint64_t>> found;
  find_hooked(bytes, kStart, all, [&](Hook hook, uint64_t address) { found.emplace_back(hook, address); });
  EXPECT_EQ(found, (std::vector<std::pair<Hook, uint64_t>>{{Hook::landing, kStart + 48},
                                                           {Hook::vfork, kStart + 100}}));
  find_hooked({}, kStart, all, [](Hook, uint64_t) { ADD_FAILURE(); });
  find_hooked(
      bytes, kStart, [](Hook) { return false; }, [](Hook, uint64_t) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace mdl::arch
