// Every instruction that a seccomp filter may have, and what a reader must not be fooled by.
#include "runtime/process/bpf.h"

#include <gtest/gtest.h>
#include <linux/audit.h>

#include <cstddef>
#include <random>
#include <vector>

namespace mdl::process {
namespace {

using Code = std::vector<sock_filter>;

seccomp_data call(int number, std::vector<uint64_t> args = {}) {
  seccomp_data data{};
  data.nr = number;
  data.arch = AUDIT_ARCH_X86_64;
  data.instruction_pointer = 0x1122334455667788;
  for (size_t i = 0; i < args.size(); i++) data.args[i] = args[i];
  return data;
}
// What the code returns; 0xbad when it is no filter.
uint32_t result(const Code& code, const seccomp_data& data = call(9)) {
  auto ruling = evaluate(code, data);
  return ruling ? ruling->value : 0xbad;
}
sock_filter op(uint16_t code, uint32_t k = 0) {
  return {code, 0, 0, k};
}
sock_filter branch(uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
  return {code, yes, no, k};
}
constexpr uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS, kSet = BPF_LD | BPF_IMM, kSetX = BPF_LDX | BPF_IMM,
                   kReturn = BPF_RET | BPF_K, kReturnA = BPF_RET | BPF_A;

TEST(Bpf, LoadsWhatTheKernelShows) {
  auto at = [](uint32_t offset) {
    return result({op(kLoad, offset), op(kReturnA)}, call(9, {0xaaaa'bbbb'cccc'dddd}));
  };
  EXPECT_EQ(at(0), 9u);
  EXPECT_EQ(at(4), uint32_t{AUDIT_ARCH_X86_64});
  EXPECT_EQ(at(8), 0x55667788u);
  EXPECT_EQ(at(12), 0x11223344u);
  EXPECT_EQ(at(16), 0xccccddddu);
  EXPECT_EQ(at(20), 0xaaaabbbbu);
  EXPECT_EQ(at(60), 0u);
  EXPECT_EQ(at(64), 0xbadu);
  EXPECT_EQ(at(62), 0xbadu);
  EXPECT_EQ(at(2), 0xbadu);
  EXPECT_EQ(at(UINT32_MAX - 3), 0xbadu);
  EXPECT_EQ(result({op(BPF_LD | BPF_W | BPF_LEN), op(kReturnA)}), 64u);
  EXPECT_EQ(result({op(BPF_LDX | BPF_W | BPF_LEN), op(BPF_MISC | BPF_TXA), op(kReturnA)}), 64u);
}

TEST(Bpf, SaysWhatItHasLookedAt) {
  const Code code = {op(kLoad, 0), branch(BPF_JMP | BPF_JEQ, 9, 0, 1), op(kLoad, 24), op(kReturn, 7)};
  EXPECT_EQ(evaluate(code, call(9))->looked_at, 1 << 0 | 1 << 6);
  EXPECT_EQ(evaluate(code, call(10))->looked_at, 1 << 0);
}

TEST(Bpf, Arithmetic) {
  auto compute = [](uint16_t operation, uint32_t a, uint32_t by) {
    uint32_t constant = result({op(kSet, a), op(BPF_ALU | operation | BPF_K, by), op(kReturnA)});
    uint32_t index = result({op(kSet, a), op(kSetX, by), op(BPF_ALU | operation | BPF_X), op(kReturnA)});
    EXPECT_EQ(constant, index) << operation;
    return constant;
  };
  EXPECT_EQ(compute(BPF_ADD, 0xffffffff, 2), 1u);
  EXPECT_EQ(compute(BPF_SUB, 1, 2), 0xffffffffu);
  EXPECT_EQ(compute(BPF_MUL, 0x10000, 0x10001), 0x10000u);
  EXPECT_EQ(compute(BPF_DIV, 0xffffffff, 2), 0x7fffffffu);
  EXPECT_EQ(compute(BPF_AND, 0xff00ff, 0x0ff0), 0x0000f0u);
  EXPECT_EQ(compute(BPF_OR, 0xf0, 0x0f), 0xffu);
  EXPECT_EQ(compute(BPF_XOR, 0xff, 0x0f), 0xf0u);
  EXPECT_EQ(compute(BPF_LSH, 0x80000001, 1), 2u);
  EXPECT_EQ(compute(BPF_RSH, 0x80000001, 31), 1u);
  EXPECT_EQ(result({op(kSet, 1), op(BPF_ALU | BPF_NEG), op(kReturnA)}), 0xffffffffu);
  // By zero: a constant is no filter, a register ends it with 0, which kills the thread.
  EXPECT_EQ(result({op(kSet, 1), op(BPF_ALU | BPF_DIV | BPF_K, 0), op(kReturnA)}), 0xbadu);
  EXPECT_EQ(result({op(kSet, 1), op(BPF_ALU | BPF_DIV | BPF_X), op(kReturn, 5)}), 0u);
  EXPECT_EQ(result({op(BPF_ALU | BPF_LSH | BPF_K, 32), op(kReturnA)}), 0xbadu);
  // MOD is BPF, but no filter's.
  EXPECT_EQ(result({op(kSet, 7), op(BPF_ALU | BPF_MOD | BPF_K, 4), op(kReturnA)}), 0xbadu);
}

TEST(Bpf, MemoryAndRegisters) {
  EXPECT_EQ(result({op(kSet, 5), op(BPF_ST, 3), op(kSet, 0), op(BPF_LD | BPF_MEM, 3), op(kReturnA)}), 5u);
  EXPECT_EQ(result({op(kSetX, 6), op(BPF_STX, 15), op(BPF_LD | BPF_MEM, 15), op(kReturnA)}), 6u);
  EXPECT_EQ(
      result({op(kSet, 8), op(BPF_ST, 0), op(BPF_LDX | BPF_MEM, 0), op(BPF_MISC | BPF_TXA), op(kReturnA)}),
      8u);
  EXPECT_EQ(result({op(kSet, 9), op(BPF_MISC | BPF_TAX), op(kSet, 0), op(BPF_MISC | BPF_TXA), op(kReturnA)}),
            9u);
  EXPECT_EQ(result({op(BPF_ST, 16), op(kReturn, 1)}), 0xbadu);
  EXPECT_EQ(result({op(BPF_LD | BPF_MEM, 16), op(kReturn, 1)}), 0xbadu);
}

TEST(Bpf, Jumps) {
  auto taken = [](uint16_t operation, uint32_t a, uint32_t by) {
    const Code code = {op(kSet, a), branch(BPF_JMP | operation | BPF_K, by, 1, 0), op(kReturn, 0),
                       op(kReturn, 1)};
    const Code index = {op(kSet, a), op(kSetX, by), branch(BPF_JMP | operation | BPF_X, 0, 1, 0),
                        op(kReturn, 0), op(kReturn, 1)};
    EXPECT_EQ(result(code), result(index));
    return result(code) == 1;
  };
  EXPECT_TRUE(taken(BPF_JEQ, 4, 4));
  EXPECT_FALSE(taken(BPF_JEQ, 4, 5));
  EXPECT_TRUE(taken(BPF_JGT, 0x80000000, 1));  // unsigned
  EXPECT_FALSE(taken(BPF_JGT, 4, 4));
  EXPECT_TRUE(taken(BPF_JGE, 4, 4));
  EXPECT_FALSE(taken(BPF_JGE, 3, 4));
  EXPECT_TRUE(taken(BPF_JSET, 6, 2));
  EXPECT_FALSE(taken(BPF_JSET, 4, 2));
  EXPECT_EQ(result({op(BPF_JMP | BPF_JA, 1), op(kReturn, 0), op(kReturn, 1)}), 1u);
  for (uint32_t far : {2u, 1000u, UINT32_MAX, UINT32_MAX - 1})
    EXPECT_EQ(result({op(BPF_JMP | BPF_JA, far), op(kReturn, 0), op(kReturn, 1)}), 0xbadu) << far;
  EXPECT_EQ(result({branch(BPF_JMP | BPF_JEQ, 0, 200, 0), op(kReturn, 0)}), 0xbadu);
}

TEST(Bpf, WhatIsNoFilter) {
  EXPECT_EQ(result({}), 0xbadu);
  EXPECT_EQ(result({op(kSet, 1)}), 0xbadu);  // falls off its end
  for (uint16_t code :
       {BPF_LD | BPF_B | BPF_ABS, BPF_LD | BPF_H | BPF_ABS, BPF_LD | BPF_W | BPF_IND,
        BPF_LDX | BPF_W | BPF_ABS, BPF_LDX | BPF_B | BPF_MSH, BPF_RET | BPF_X, BPF_MISC | 0x40, 0xff, 0xffff})
    EXPECT_EQ(result({op(code, 0), op(kReturn, 1)}), 0xbadu) << code;
}

TEST(Bpf, AnyBytesEnd) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; round++) {
    Code code(random() % 40);
    for (sock_filter& in : code)
      in = {static_cast<uint16_t>(random() % 256), static_cast<uint8_t>(random() % 8),
            static_cast<uint8_t>(random() % 8), static_cast<uint32_t>(random() % 70)};
    (void)evaluate(code, call(9)).has_value();
  }
}

TEST(Bpf, TheStrictestActionHolds) {
  const uint32_t order[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
                            SECCOMP_RET_ERRNO,        SECCOMP_RET_USER_NOTIF,  SECCOMP_RET_TRACE,
                            SECCOMP_RET_LOG,          SECCOMP_RET_ALLOW};
  for (size_t i = 0; i < std::size(order); i++)
    for (size_t j = 0; j < std::size(order); j++) EXPECT_EQ(is_stricter(order[i], order[j]), i < j) << i << j;
  EXPECT_FALSE(is_stricter(SECCOMP_RET_ERRNO | 1, SECCOMP_RET_ERRNO | 13));
}

}  // namespace
}  // namespace mdl::process
