// Where code leaves frames by a jump of its own, as compilers make it of __builtin_longjmp; where it sets the thread
// pointer; constants in code.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "runtime/arch/code_search.h"

namespace mdl::arch {
namespace {

constexpr uint64_t kAt = 0x4000;

uint64_t found(std::initializer_list<int> code) {
  std::vector<std::byte> bytes(3, std::byte{0x90});
  for (const int byte : code) bytes.push_back(static_cast<std::byte>(byte));
  bytes.resize(bytes.size() + 2 * kMostOfStackJump, std::byte{0x90});
  return find_stack_jump(bytes, kAt);
}

TEST(StackJump, IsFound) {
  // mov 16(%rax),%rsp; mov %rcx,%rbp; jmp *%rdx
  EXPECT_EQ(found({0x48, 0x8b, 0x60, 0x10, 0x48, 0x89, 0xcd, 0xff, 0xe2}), kAt + 3);
  // mov 16(%r12),%rsp; jmp *%r8
  EXPECT_EQ(found({0x49, 0x8b, 0x64, 0x24, 0x10, 0x41, 0xff, 0xe0}), kAt + 3);
  // mov buffer+16(%rip),%rsp; mov %rdx,%rbp; notrack jmp *%rax
  EXPECT_EQ(found({0x48, 0x8b, 0x25, 1, 2, 3, 0, 0x48, 0x89, 0xd5, 0x3e, 0xff, 0xe0}), kAt + 3);
}

TEST(StackJump, IsNoOther) {
  // mov 16(%rax),%rsp; pop %rbp; ret: a frame's own end
  EXPECT_EQ(found({0x48, 0x8b, 0x60, 0x10, 0x5d, 0xc3}), 0u);
  // mov 16(%rax),%rsi; jmp *%rdx: a tail call
  EXPECT_EQ(found({0x48, 0x8b, 0x70, 0x10, 0xff, 0xe2}), 0u);
  // mov 48(%rdi),%rsp; jmp *%rdx: musl's longjmp, which is known by its name
  EXPECT_EQ(found({0x48, 0x8b, 0x67, 0x30, 0xff, 0xe2}), 0u);
  EXPECT_EQ(find_stack_jump({}, kAt), 0u);
}

TEST(PointerChange, IsFoundAnywhere) {
  for (const int rex : {0x48, 0x49})
    for (const size_t at : {0, 1, 40}) {
      std::vector<std::byte> bytes(at, std::byte{0xae});
      for (const int byte : {0xf3, rex, 0x0f, 0xae, 0xd3}) bytes.push_back(static_cast<std::byte>(byte));
      EXPECT_EQ(find_pointer_change(bytes, kAt), kAt + at);
      bytes.pop_back();
      EXPECT_EQ(find_pointer_change(bytes, kAt), 0u);
    }
}

TEST(PointerChange, IsNoOther) {
  for (const auto& code : {std::vector{0xf3, 0x48, 0x0f, 0xae, 0xc3},  // rdfsbase
                           std::vector{0xf3, 0x48, 0x0f, 0xae, 0xdb},  // wrgsbase
                           std::vector{0xf2, 0x48, 0x0f, 0xae, 0xd3}}) {
    std::vector<std::byte> bytes;
    for (const int byte : code) bytes.push_back(static_cast<std::byte>(byte));
    EXPECT_EQ(find_pointer_change(bytes, kAt), 0u);
  }
  EXPECT_EQ(find_pointer_change({}, kAt), 0u);
}

// mov $0x54535552005a4f4d,%rcx
TEST(Constant, IsFoundWhole) {
  std::vector<std::byte> bytes(3, std::byte{0x90});
  for (const int byte : {0x48, 0xb9, 0x4d, 0x4f, 0x5a, 0x00, 0x52, 0x55, 0x53, 0x54})
    bytes.push_back(static_cast<std::byte>(byte));
  EXPECT_EQ(find_constant(bytes, kAt, 0x54535552005a4f4d), kAt + 5);
  EXPECT_EQ(find_constant(bytes, kAt, 0x54535552005a4f4e), 0u);
  EXPECT_EQ(find_constant({}, kAt, 0x54535552005a4f4d), 0u);
}

}  // namespace
}  // namespace mdl::arch
