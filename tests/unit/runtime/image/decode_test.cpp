// What an instruction does, against Intel's manual (SDM volume 2). Bytes carry their assembly.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/arch/decoder.h"
#include "runtime/image/code.h"

namespace mdl::image {
namespace {

constexpr Registers rax = 1 << 0, rcx = 1 << 1, rdx = 1 << 2, rbx = 1 << 3, rsp = 1 << 4, rbp = 1 << 5,
                    rsi = 1 << 6, rdi = 1 << 7, r8 = 1 << 8, r15 = 1 << 15;
constexpr Registers all = kFlags | 0xffff;

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Instruction one(const std::string& hex) {
  std::vector<std::byte> bytes = bytes_of(hex);
  std::vector<Instruction> found = decode(bytes, 0x1000);
  EXPECT_EQ(found.size(), 1u) << hex;
  if (found.empty()) return {};
  EXPECT_EQ(found[0].size, bytes.size()) << hex;
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(found[0].bytes)), bytes)) << hex;
  return found[0];
}

struct Effect {
  const char* hex;
  const char* text;
  Registers reads, writes, touches;
};

// clang-format off
constexpr Effect kEffects[] = {
    {"4889c8", "mov %rcx, %rax", rcx, rax, rax},
    {"89c8", "mov %ecx, %eax: clears the upper half", rcx, rax, rax},
    {"6689c8", "mov %cx, %ax: keeps the rest", rax | rcx, 0, rax},
    {"88c8", "mov %cl, %al", rax | rcx, 0, rax},
    {"88cc", "mov %cl, %ah", rax | rcx, 0, rax},
    {"b001", "mov $1, %al", rax, 0, rax},
    {"0fb6c1", "movzbl %cl, %eax", rcx, rax, rax},
    {"488b04cf", "mov (%rdi,%rcx,8), %rax", rdi | rcx, rax, rax},
    {"48890c24", "mov %rcx, (%rsp)", rcx | rsp, 0, 0},
    {"4c897c2408", "mov %r15, 8(%rsp)", r15 | rsp, 0, 0},
    {"488d0510000000", "lea 16(%rip), %rax", 0, rax, rax},
    {"31c0", "xor %eax, %eax: no input", 0, rax | kFlags, rax | kFlags},
    {"4d31c0", "xor %r8, %r8", 0, r8 | kFlags, r8 | kFlags},
    {"30c0", "xor %al, %al: keeps the rest", rax, kFlags, rax | kFlags},
    {"19c0", "sbb %eax, %eax: reads the carry", rax | kFlags, rax | kFlags, rax | kFlags},
    {"4801c8", "add %rcx, %rax", rax | rcx, rax | kFlags, rax | kFlags},
    {"4811c8", "adc %rcx, %rax", rax | rcx | kFlags, rax | kFlags, rax | kFlags},
    {"39c8", "cmp %ecx, %eax", rax | rcx, kFlags, kFlags},
    {"85c0", "test %eax, %eax", rax, kFlags, kFlags},
    {"f7d8", "neg %eax", rax, rax | kFlags, rax | kFlags},
    {"48ffc0", "inc %rax: keeps the carry", rax, rax, rax | kFlags},
    {"48ffc8", "dec %rax", rax, rax, rax | kFlags},
    {"f7d0", "not %eax: no flags", rax, rax, rax},
    {"d1e0", "shl %eax", rax, rax, rax | kFlags},
    {"48d3e0", "shl %cl, %rax: a count of 0 keeps the flags", rax | rcx, rax, rax | kFlags},
    {"480fafc1", "imul %rcx, %rax", rax | rcx, rax, rax | kFlags},
    {"48f7e1", "mul %rcx", rax | rcx, rax | rdx, rax | rdx | kFlags},
    {"48f7f9", "idiv %rcx", rax | rcx | rdx, rax | rdx, rax | rdx | kFlags},
    {"4899", "cqto: LLVM has it write rax too", rax, rax | rdx, rax | rdx},
    {"4898", "cltq", rax, rax, rax},
    {"0f44c1", "cmove %ecx, %eax", rax | rcx | kFlags, 0, rax},
    {"0f94c0", "sete %al", rax | kFlags, 0, rax},
    {"0fbcc1", "bsf %ecx, %eax: keeps eax for 0", rax | rcx, 0, rax | kFlags},
    {"f30fbcc1", "tzcnt %ecx, %eax: is bsf on old processors", rax | rcx, 0, rax | kFlags},
    {"0fa3c8", "bt %ecx, %eax", rax | rcx, 0, kFlags},
    {"55", "push %rbp", rbp | rsp, rsp, rsp},
    {"5d", "pop %rbp", rsp, rbp | rsp, rbp | rsp},
    {"c9", "leave", rbp | rsp, rbp | rsp, rbp | rsp},
    {"9c", "pushf", rsp | kFlags, rsp, rsp | kFlags},
    {"9f", "lahf", rax | kFlags, 0, rax | kFlags},
    {"4887d8", "xchg %rbx, %rax", rax | rbx, rax | rbx, rax | rbx},
    {"f0480fb10f", "lock cmpxchg %rcx, (%rdi)", rax | rcx | rdi, rax | kFlags, rax | kFlags},
    {"f0480fc10f", "lock xadd %rcx, (%rdi)", rcx | rdi, rcx | kFlags, rcx | kFlags},
    {"0fa2", "cpuid", rax | rcx, rax | rbx | rcx | rdx, rax | rbx | rcx | rdx},
    {"f30f1efa", "endbr64", 0, 0, 0},
    {"660fefc0", "pxor %xmm0, %xmm0", 0, 0, 0},
    {"f20f1007", "movsd (%rdi), %xmm0", rdi, 0, 0},
    {"660f2ec1", "ucomisd %xmm1, %xmm0", 0, kFlags, kFlags},
    {"7405", "je", kFlags, 0, 0},
    {"e305", "jrcxz", rcx, 0, 0},
    {"0f1f440000", "nop 0(%rax,%rax)", 0, 0, 0},
};
// clang-format on

TEST(Decode, EffectsOnRegisters) {
  for (const Effect& effect : kEffects) {
    Instruction found = one(effect.hex);
    EXPECT_EQ(found.reads, effect.reads) << effect.text;
    EXPECT_EQ(found.writes, effect.writes) << effect.text;
    EXPECT_EQ(found.touches, effect.touches) << effect.text;
  }
}

// What may run no times, or does what the tables do not say, replaces nothing and reads all of it.
TEST(Decode, UncertainEffects) {
  for (const char* hex : {"f3a4", "f348ab", "a4", "f2ae", "c8000000", "f8", "f5", "fc"}) {
    Instruction found = one(hex);
    EXPECT_EQ(found.writes, 0u) << hex;
    EXPECT_EQ(found.reads & (rcx | rsi | rdi | kFlags), rcx | rsi | rdi | kFlags) << hex;
  }
  EXPECT_EQ(one("e2f0").touches & rcx, rcx);  // loop
}

struct Control {
  const char* hex;
  const char* text;
  Flow flow;
  uint64_t target;
  bool short_form;
};

// clang-format off
constexpr Control kControls[] = {
    {"eb05", "jmp +5", Flow::jump, 0x1007, true},
    {"e900010000", "jmp +256", Flow::jump, 0x1105, false},
    {"f2e900010000", "bnd jmp +256", Flow::jump, 0x1106, false},
    {"74fe", "je self", Flow::branch, 0x1000, true},
    {"2e7405", "je +5, predicted not taken", Flow::branch, 0x1008, true},
    {"0f8400010000", "je +256", Flow::branch, 0x1106, false},
    {"e2f0", "loop -16", Flow::branch, 0xff2, true},
    {"e3f0", "jrcxz -16", Flow::branch, 0xff2, true},
    {"c7f800010000", "xbegin +256", Flow::branch, 0x1106, false},
    {"e800010000", "call +256", Flow::call, 0x1105, false},
    {"666648e800010000", "data16 data16 rex.W call +256", Flow::call, 0x1108, false},
    {"67e800010000", "addr32 call +256", Flow::call, 0x1106, false},
    {"ffd0", "call *%rax", Flow::call_indirect, 0, false},
    {"ff1500010000", "call *256(%rip)", Flow::call_indirect, 0, false},
    {"ffe0", "jmp *%rax", Flow::jump_indirect, 0, false},
    {"3effe0", "notrack jmp *%rax", Flow::jump_indirect, 0, false},
    {"f2ff2500010000", "bnd jmp *256(%rip)", Flow::jump_indirect, 0, false},
    {"ff24c500010000", "jmp *256(,%rax,8)", Flow::jump_indirect, 0, false},
    {"c3", "ret", Flow::return_, 0, false},
    {"f3c3", "rep ret", Flow::return_, 0, false},
    {"f2c3", "bnd ret", Flow::return_, 0, false},
    {"c21000", "ret $16", Flow::return_, 0, false},
    {"0f05", "syscall", Flow::system_call, 0, false},
    {"cd80", "int $0x80", Flow::system_call, 0, false},
    {"f4", "hlt", Flow::stop, 0, false},
    {"0f0b", "ud2", Flow::stop, 0, false},
    {"0fb9c0", "ud1 %eax, %eax", Flow::stop, 0, false},
    {"cc", "int3", Flow::stop, 0, false},
    {"90", "nop", Flow::next, 0, false},
    {"4889c8", "mov %rcx, %rax", Flow::next, 0, false},
};
// clang-format on

TEST(Decode, Control) {
  for (const Control& control : kControls) {
    Instruction found = one(control.hex);
    EXPECT_EQ(found.flow, control.flow) << control.text;
    EXPECT_EQ(found.target, control.target) << control.text;
    EXPECT_EQ(found.short_form, control.short_form) << control.text;
    bool goes_elsewhere =
        control.flow != Flow::next && control.flow != Flow::jump && control.flow != Flow::branch;
    if (goes_elsewhere && !found.is_padding) {
      EXPECT_EQ(found.reads, all) << control.text;
    }
  }
}

TEST(Decode, PcRelativeDisplacement) {
  const std::pair<const char*, int> cases[] = {
      {"488b0d10000000", 3},        // mov 16(%rip), %rcx
      {"488d0510000000", 3},        // lea 16(%rip), %rax
      {"8b0d10000000", 2},          // mov 16(%rip), %ecx
      {"c7050000010001000000", 2},  // movl $1, 65536(%rip): an immediate follows
      {"660f6f0510000000", 4},      // movdqa 16(%rip), %xmm0
      {"f20f100510000000", 4},      // movsd 16(%rip), %xmm0
      {"660f3a0f051000000007", 5},  // palignr $7, 16(%rip), %xmm0
      {"c5f86f0510000000", 4},      // a two-byte VEX that no processor has
      {"c5f96f0510000000", 4},      // vmovdqa 16(%rip), %xmm0
      {"c4e2790005 10000000", 5},   // vpshufb 16(%rip), %xmm0, %xmm0
      {"62f1fd486f0510000000", 6},  // vmovdqa64 16(%rip), %zmm0
      {"ff1510000000", 2},          // call *16(%rip)
      {"66488d3d10000000", 4},      // data16 lea 16(%rip), %rdi
      {"f0ff0510000000", 3},        // lock incl 16(%rip)
      {"8f0510000000", 2},          // pop 16(%rip): 8f is also XOP's first byte
      {"488b4810", 0},              // mov 16(%rax), %rcx
      {"e810000000", 0},            // call: direct, no memory operand
  };
  for (auto [text, offset] : cases) {
    std::string hex = text;
    std::erase(hex, ' ');
    if (hex == "c5f86f0510000000") {
      EXPECT_TRUE(decode(bytes_of(hex), 0).empty());
      continue;
    }
    EXPECT_EQ(one(hex).pc_relative_at, offset) << hex;
  }
}

TEST(Decode, PaddingAndLanding) {
  for (const char* hex : {"90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000",
                          "662e0f1f840000000000", "66662e0f1f840000000000", "cc"}) {
    EXPECT_TRUE(one(hex).is_padding) << hex;
  }
  for (const char* hex : {"f390", "f30f1efa", "4190", "87db", "c3"}) EXPECT_FALSE(one(hex).is_padding) << hex;
  EXPECT_TRUE(one("f30f1efa").is_landing);
  EXPECT_FALSE(one("0f1f00").is_landing);
}

TEST(Decode, WhatMayFault) {
  // mov (%rdi),%eax; mov %rdi,-8(%rbp); add %eax,(%rsp,%rax); orq $0,-0x2000(%rsp); idiv %esi; div %rcx; divq (%rdi);
  // rep movsb; rep stos; lods; jmp *8(%rax); call *(%rdi); movss (%rdi),%xmm0
  for (const char* hex : {"8b07", "48897df8", "010404", "48838c2400e0ffff00", "f7fe", "48f7f1", "48f737",
                          "f3a4", "f348ab", "48ad", "ff6008", "ff17", "f30f1007"})
    EXPECT_TRUE(may_fault(one(hex))) << hex;
  // lea (%rdi),%rax; mov 0x10(%rip),%eax; mov %rdi,-0x18(%rsp); mov %fs:0x28,%rax; push %rbp; ret; mul %esi; not %eax;
  // test $5,%eax; test $5,%al; nopw (%rax,%rax); call *%rax
  for (const char* hex : {"488d07", "8b0510000000", "48897c24e8", "64488b042528000000", "55", "c3", "f7e6",
                          "f7d0", "f7c005000000", "a805", "660f1f440000", "ffd0"})
    EXPECT_FALSE(may_fault(one(hex))) << hex;
}

// Beside what decode() says of each instruction.
TEST(Decode, FindsJumpsWithoutTheRest) {
  // bnd jmp +2; je +0x100; call +0x10; jmp *%rax; jrcxz +1; lock incl (%rdi); jmp +5; ret; nothing; jmp
  const std::vector<std::byte> bytes = bytes_of(
      "f2eb02"
      "0f8400010000"
      "e810000000"
      "ffe0"
      "e301"
      "f0ff07"
      "e905000000"
      "c3"
      "06"
      "eb00");
  std::vector<uint64_t> expected, found;
  for (const Instruction& instruction : decode(bytes, 0x1000))
    if (instruction.flow == Flow::jump || instruction.flow == Flow::branch)
      expected.push_back(instruction.target);
  arch::find_jumps(bytes, 0x1000, [&](uint64_t target) { found.push_back(target); });
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), 4u);
}

TEST(Decode, BeginsWithACallOnlyWhereOneIs) {
  EXPECT_TRUE(arch::begins_with_call(bytes_of("e800000000c3")));
  EXPECT_EQ(one("e800000000").flow, Flow::call);
  // too short; jmp; call *%rax; ret; nothing
  for (const char* hex : {"e8000000", "e900000000", "ffd0", "c3", ""})
    EXPECT_FALSE(arch::begins_with_call(bytes_of(hex))) << hex;
}

TEST(Decode, AsksForStack) {
  // cmp %fs:0x70,%r11; cmp %fs:0x70,%rsp; cmp %fs:0x28,%rax; mov %fs:0x70,%r11; cmp 0x70,%rsp
  EXPECT_TRUE(arch::asks_for_stack(one("644c3b1c2570000000")));
  EXPECT_TRUE(arch::asks_for_stack(one("64483b242570000000")));
  EXPECT_FALSE(arch::asks_for_stack(one("64483b042528000000")));
  EXPECT_FALSE(arch::asks_for_stack(one("644c8b1c2570000000")));
  EXPECT_FALSE(arch::asks_for_stack(one("483b242570000000")));
}

TEST(Decode, StopsWhereNothingDecodes) {
  // nop; then a byte that is no instruction in 64-bit mode (push %es); then nop
  EXPECT_EQ(decode(bytes_of("900690"), 0).size(), 1u);
  // An instruction that is cut off.
  EXPECT_TRUE(decode(bytes_of("e80000"), 0).empty());
  EXPECT_TRUE(decode({}, 0).empty());
  // Prefixes without end.
  EXPECT_TRUE(decode(bytes_of(std::string(64, '6')), 0).empty());
}

// No sequence of bytes may trouble the decoder, and what it returns lies inside of the bytes.
TEST(Decode, AnyBytes) {
  uint64_t state = 88172645463325252u;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(16);
    for (std::byte& byte : bytes) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      byte = static_cast<std::byte>(state);
    }
    size_t total = 0;
    for (const Instruction& found : decode(bytes, 0x400000)) {
      EXPECT_GT(found.size, 0);
      EXPECT_EQ(found.writes & ~found.touches, 0u);
      total += found.size;
    }
    EXPECT_LE(total, bytes.size());
  }
}

}  // namespace
}  // namespace mdl::image
