// Stacks of stopped programs whose depth is known.
#include "runtime/image/unwind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "runtime/image/expression.h"
#include "runtime/image/frames.h"
#include "tests/unit/runtime/image/program.h"

namespace mdl::image {
namespace {

using testing::Folder;
using testing::Program;

struct Walked {
  Stack stack;
  std::vector<std::string> names;  // of the main program's functions, innermost first
};

Walked walk(const Program& program, size_t limit = 10000) {
  Walked walked;
  Result<Image> image = read_image(program.pid());
  EXPECT_TRUE(image);
  if (!image) return walked;
  Unwinder unwinder(*image);
  walked.stack = unwinder.walk(program.registers(), LiveMemory(program.pid()), limit);
  for (const Frame& frame : walked.stack.frames) {
    const Object* object = object_at(*image, frame.pc);
    const Function* function = object ? function_at(*object, frame.pc - (frame.is_call ? 1 : 0)) : nullptr;
    if (object == &image->objects.front() && function) walked.names.push_back(function->name);
  }
  return walked;
}

size_t count(const Walked& walked, const std::string& name) {
  return static_cast<size_t>(std::count(walked.names.begin(), walked.names.end(), name));
}

struct StackBuild {
  std::string compiler, options;
};
void PrintTo(const StackBuild& how, std::ostream* out) {
  *out << how.compiler << ' ' << how.options;
}

class StackOfBuild : public ::testing::TestWithParam<StackBuild> {};

TEST_P(StackOfBuild, IsWalkedToItsEnd) {
  Folder folder;
  std::string path = testing::build(folder, GetParam().compiler, "stacks.cc", GetParam().options);
  ASSERT_FALSE(HasFatalFailure());
  for (const char* depth : {"1", "7", "300"}) {
    Program program({path, depth});
    ASSERT_TRUE(program.continue_to(SIGSTOP));
    Walked walked = walk(program);
    EXPECT_TRUE(walked.stack.complete) << walked.stack.doubt;
    EXPECT_EQ(count(walked, "descend"), std::stoul(depth));
    EXPECT_EQ(count(walked, "bottom"), 1u);
    EXPECT_EQ(count(walked, "main"), 1u);
    for (size_t i = 1; i < walked.stack.frames.size(); ++i)
      EXPECT_GT(walked.stack.frames[i].cfa, walked.stack.frames[i - 1].cfa);
  }
}

TEST_P(StackOfBuild, IsWalkedThroughASignal) {
  Folder folder;
  std::string path = testing::build(folder, GetParam().compiler, "stacks.cc", GetParam().options);
  ASSERT_FALSE(HasFatalFailure());
  for (const char* where : {"same", "alternate"}) {
    Program program({path, "5", where});
    ASSERT_TRUE(program.continue_to(SIGSTOP));
    Walked walked = walk(program);
    EXPECT_TRUE(walked.stack.complete) << walked.stack.doubt;
    EXPECT_EQ(count(walked, "on_signal"), 1u) << where;
    EXPECT_EQ(count(walked, "descend"), 5u) << where;
    EXPECT_EQ(count(walked, "main"), 1u) << where;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Builds, StackOfBuild,
    ::testing::Values(StackBuild{"g++", "-O2 -fno-optimize-sibling-calls"}, StackBuild{"g++", "-O0"},
                      StackBuild{"g++", "-O1 -fomit-frame-pointer -no-pie -fcf-protection=full"},
                      StackBuild{"g++", "-O1 -static"}, StackBuild{"clang++", "-O1"}),
    [](const auto& info) { return "build" + std::to_string(info.index); });

// At every instruction until main returns, also between a frame's set-up and in the procedure
// linkage table, the walk reaches the end.
TEST(Unwind, EveryInstruction) {
  Folder folder;
  std::string path = testing::build(folder, "g++", "stacks.cc", "-O1 -Wl,-z,lazy");
  ASSERT_FALSE(HasFatalFailure());
  Program program({path, "3"});
  ASSERT_TRUE(program.continue_to(SIGSTOP));
  Result<Image> image = read_image(program.pid());
  ASSERT_TRUE(image);
  Unwinder unwinder(*image);
  LiveMemory memory(program.pid());
  const Object& main_object = image->objects.front();
  auto is_in_main = [&](const Frame& frame) {
    const Function* function = function_at(main_object, frame.pc - (frame.is_call ? 1 : 0));
    return function && function->name == "main";
  };
  size_t steps = 0;
  while (program.step() == 0) {
    RegisterFile registers = program.registers();
    Stack stack = unwinder.walk(registers, memory);
    if (std::none_of(stack.frames.begin(), stack.frames.end(), is_in_main)) break;
    ASSERT_TRUE(stack.complete) << stack.doubt << " at " << std::hex << registers[16];
    ++steps;
  }
  EXPECT_GT(steps, 500u);
}

TEST(Unwind, LimitIsKept) {
  Folder folder;
  std::string path = testing::build(folder, "g++", "stacks.cc", "-O1");
  ASSERT_FALSE(HasFatalFailure());
  Program program({path, "300"});
  ASSERT_TRUE(program.continue_to(SIGSTOP));
  Walked walked = walk(program, 50);
  EXPECT_EQ(walked.stack.frames.size(), 50u);
  EXPECT_FALSE(walked.stack.complete);
  EXPECT_NE(walked.stack.doubt, "");
}

TEST(Unwind, NowhereIsADoubt) {
  Unwinder unwinder{Image()};
  RegisterFile registers{};
  registers[16] = 0x1234;
  Stack stack = unwinder.walk(registers, BufferMemory({}));
  EXPECT_FALSE(stack.complete);
  EXPECT_NE(stack.doubt.find("0x1234"), std::string::npos);
}

// Entries built by hand: a CIE ("zR", pcrel sdata4) and one FDE for [0x1000, 0x1100), the
// section at 0x2000.
std::vector<std::byte> make_section(std::vector<uint8_t> cie_program, std::vector<uint8_t> fde_program) {
  std::vector<uint8_t> bytes;
  auto put32 = [&](uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
  };
  put32(static_cast<uint32_t>(4 + 1 + 3 + 4 + 1 + cie_program.size()));
  put32(0);
  // version 1, "zR", code align 1, data align -8, return address 16, 1 byte: encoding 0x1b
  for (int byte : {1, int{'z'}, int{'R'}, 0, 1, 0x78, 16, 1, 0x1b})
    bytes.push_back(static_cast<uint8_t>(byte));
  bytes.insert(bytes.end(), cie_program.begin(), cie_program.end());
  put32(static_cast<uint32_t>(4 + 8 + 1 + fde_program.size()));
  put32(static_cast<uint32_t>(bytes.size()));
  put32(static_cast<uint32_t>(0x1000 - (0x2000 + bytes.size())));
  put32(0x100);
  bytes.push_back(0);
  bytes.insert(bytes.end(), fde_program.begin(), fde_program.end());
  put32(0);
  std::vector<std::byte> section(bytes.size());
  std::memcpy(section.data(), bytes.data(), bytes.size());
  return section;
}

// def_cfa rsp, 8; offset of the return address: -1 * data align
const std::vector<uint8_t> kEntry = {0x0c, 7, 8, 0x90, 1};

TEST(Frames, RowsByPc) {
  // 4: def_cfa_offset 16; offset rbp 2; 8: remember; 12: def_cfa_offset 8, restore rbp; 16: restore state
  FrameTable table(
      make_section(kEntry, {0x44, 0x0e, 16, 0x86, 2, 0x44, 0x0a, 0x44, 0x0e, 8, 0xc6, 0x44, 0x0b}), 0x2000,
      0);
  ASSERT_EQ(table.entries().size(), 1u);
  const Fde& entry = table.entries()[0];
  EXPECT_EQ(entry.start, 0x1000u);
  EXPECT_EQ(entry.end, 0x1100u);
  EXPECT_EQ(table.find(0x10ff), &entry);
  EXPECT_EQ(table.find(0x1100), nullptr);
  EXPECT_EQ(table.find(0xfff), nullptr);
  auto offset_at = [&](uint64_t pc) { return table.row_at(entry, pc)->cfa_offset; };
  EXPECT_EQ(offset_at(0x1000), 8);
  EXPECT_EQ(offset_at(0x1003), 8);
  EXPECT_EQ(offset_at(0x1004), 16);
  EXPECT_EQ(offset_at(0x100c), 8);
  EXPECT_EQ(offset_at(0x1010), 16);
  EXPECT_EQ(table.row_at(entry, 0x1010)->registers[6].kind, Rule::Kind::at_cfa);
  EXPECT_EQ(table.row_at(entry, 0x100c)->registers[6].kind, Rule::Kind::same);
  EXPECT_TRUE(frame_is_closed(table, 0x1000, Budget()));
  EXPECT_TRUE(frame_is_open(table, 0x1004, Budget()));
}

TEST(Frames, MalformedIsRefused) {
  for (std::vector<uint8_t> program : {std::vector<uint8_t>{0x0b},
                                       {0x3f},
                                       {0x0e},
                                       {0x0f, 0xff, 0xff, 0x03},
                                       std::vector<uint8_t>(40, 0x0a)}) {
    FrameTable table(make_section(kEntry, program), 0x2000, 0);
    ASSERT_EQ(table.entries().size(), 1u);
    EXPECT_FALSE(table.row_at(table.entries()[0], 0x1050));
  }
}

// 16 and 24 by turns, a byte each; with `end` behind them. The entry has 256 bytes of code.
std::vector<uint8_t> by_turns(size_t rows, std::vector<uint8_t> end = {}) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i < rows; i++)
    out.insert(out.end(), {0x41, 0x0e, i % 2 == 0 ? uint8_t{16} : uint8_t{24}});
  out.insert(out.end(), end.begin(), end.end());
  return out;
}

// Instructions that are many are kept as a list of rows, which says what they say.
TEST(Frames, ManyInstructionsSayTheSame) {
  for (std::vector<uint8_t> end : {std::vector<uint8_t>{},                   // the last row holds to the end
                                   {0x41, 0x3f},                             // malformed from there on
                                   {0x42, 0x0f, 2, 0x77, 0, 0x41, 0x0e, 8},  // an expression, one more row
                                   {0x02, 0xff, 0x0e, 32}}) {                // beyond the end of the code
    const std::vector<uint8_t> program = by_turns(120, end);
    FrameTable table(make_section(kEntry, program), 0x2000, 0);
    ASSERT_EQ(table.entries().size(), 1u);
    const Fde& entry = table.entries()[0];
    for (uint64_t pc = entry.start; pc < entry.end; pc++) {
      const std::optional<Row> row = table.row_at(entry, pc);
      uint64_t steps = 0;
      const std::optional<CfaRule> cfa = table.cfa_at(entry, pc, steps);
      ASSERT_EQ(cfa.has_value(), row.has_value()) << pc;
      if (!row) continue;
      EXPECT_EQ(*cfa, (CfaRule{row->cfa_is_expression, row->cfa_register, row->cfa_offset})) << pc;
    }
  }
}

// Valgrind's disassembler is one function of 50 KB with 12,000 instructions of call frame information. Each
// target of its jump tables asks about the frame; when each ran them all, the object's budget was spent.
TEST(Frames, ManyInstructionsAreRunOnce) {
  FrameTable table(make_section(kEntry, by_turns(200)), 0x2000, 0);
  uint64_t steps = 0;
  for (size_t i = 0; i < 20000; i++) ASSERT_TRUE(table.cfa_at(table.entries()[0], 0x1000 + i % 256, steps));
  EXPECT_LT(steps, 25000u);
}

// Linkers merge those that are the same; a file of an attacker's may have one for each entry.
TEST(Frames, SomeHaveTooManyKindsOfEntries) {
  constexpr size_t kMost = 65536;
  std::vector<std::byte> one = make_section(kEntry, {});
  one.resize(one.size() - 4);  // its end
  std::vector<std::byte> many;
  for (size_t i = 0; i < kMost + 10; ++i) many.insert(many.end(), one.begin(), one.end());
  const FrameTable table(std::move(many), 0x2000, 0);
  EXPECT_EQ(table.entries().size(), kMost);
}

TEST(Frames, AnyDamageIsSurvived) {
  std::vector<std::byte> sound = make_section(kEntry, {0x44, 0x0e, 16, 0x86, 2, 0x0f, 2, 0x77, 0});
  for (size_t at = 0; at < sound.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<std::byte> bytes = sound;
      bytes[at] = static_cast<std::byte>(value);
      FrameTable table(std::move(bytes), 0x2000, 0);
      for (const Fde& entry : table.entries()) {
        std::optional<Row> row = table.row_at(entry, entry.start + 5);
        EXPECT_TRUE(!row || row->expression_end <= sound.size());
      }
    }
    FrameTable cut(std::vector<std::byte>(sound.begin(), sound.begin() + static_cast<ptrdiff_t>(at)), 0x2000,
                   0);
    EXPECT_LE(cut.entries().size(), 1u);
  }
}

std::optional<uint64_t> value_of(std::vector<uint8_t> expression,
                                 std::optional<uint64_t> initial = std::nullopt) {
  FrameValues registers{};
  registers[7] = 0x7000;
  registers[16] = 0x401005;
  std::vector<std::byte> memory(16);
  memory[8] = std::byte{0x2a};
  return evaluate(std::as_bytes(std::span(expression)), registers, initial, BufferMemory(memory, 0x7000));
}

TEST(Expression, Values) {
  // The procedure linkage table's: rsp + 8 + (((rip & 15) >= 11) << 3)
  EXPECT_EQ(value_of({0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}), 0x7008u);
  EXPECT_EQ(value_of({0x77, 8, 0x06}), 42u);                   // breg7 8, deref
  EXPECT_EQ(value_of({0x23, 0x10}, 0x20), 0x30u);              // plus_uconst 16 on the CFA
  EXPECT_EQ(value_of({0x09, 0xff}), UINT64_MAX);               // const1s -1
  EXPECT_EQ(value_of({0x31, 0x32, 0x16, 0x1c}), 1u);           // 1 2 swap minus
  EXPECT_EQ(value_of({0x31, 0x28, 2, 0, 0x08, 9, 0x35}), 5u);  // 1 bra +2 over const1u 9, lit5
}

TEST(Expression, WhatCannotBeEvaluated) {
  EXPECT_FALSE(value_of({}));
  EXPECT_FALSE(value_of({0x22}));                          // plus of nothing
  EXPECT_FALSE(value_of({0x73, 0}));                       // breg3, unknown
  EXPECT_FALSE(value_of({0x30, 0x06}));                    // deref of 0
  EXPECT_FALSE(value_of({0x2f, 0xfd, 0xff}));              // skip to itself, for ever
  EXPECT_FALSE(value_of({0x2f, 0x10, 0x00}));              // skip past the end
  EXPECT_FALSE(value_of({0xe0}));                          // a vendor's operation
  EXPECT_FALSE(value_of(std::vector<uint8_t>(40, 0x31)));  // the stack overflows
}

}  // namespace
}  // namespace mdl::image
