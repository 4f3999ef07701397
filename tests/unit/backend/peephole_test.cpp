// The pass on lines as a selector writes them: what it exchanges, and what it must leave. That programs mean
// the same with and without it is shown by tests/exec, which runs them.
#include "backend/peephole.h"

#include <gtest/gtest.h>

#include "backend/stencil.h"
#include "compiler/ir/text.h"

namespace mdl::backend {
namespace {

using Kind = Line::Kind;

// Lines from text: "L1:" is a label, "jmp L1" a jump, another mnemonic before L and a digit a branch.
std::vector<Line> lines(const std::vector<std::string>& texts) {
  std::vector<Line> out;
  for (const std::string& text : texts) {
    const size_t label = text.rfind('L');
    const bool names_label = label != std::string::npos && label + 1 < text.size() &&
                             text[label + 1] >= '0' && text[label + 1] <= '9';
    const auto number = names_label ? static_cast<uint32_t>(text[label + 1] - '0') : 0;
    if (text.back() == ':')
      out.push_back({Kind::label, "", number, false});
    else if (names_label)
      out.push_back(
          {text.starts_with("jmp") ? Kind::jump : Kind::branch, text.substr(0, label - 1), number, false});
    else
      out.push_back({Kind::plain, text, 0, text.starts_with("cmp") || text.starts_with("test")});
  }
  return out;
}

std::string text_of(const std::vector<Line>& from) {
  StencilText stencil;
  stencil.lines = from;
  return assembly(stencil, 0);
}

// What the pass makes of the lines; `dead` are registers that hold nothing behind them.
std::string after(const std::string& target, const std::vector<std::string>& texts,
                  const std::vector<std::string>& dead) {
  const Target& machine = *find_target(target);
  std::vector<bool> at_end(machine.registers.size(), false);
  for (const std::string& name : dead) at_end[machine.register_of(name)] = true;
  return text_of(peephole(lines(texts), machine, at_end));
}
std::string same(const std::vector<std::string>& texts) {
  return text_of(lines(texts));
}

TEST(Peephole, ACellThatIsReadOnceIsAnOperand) {
  EXPECT_EQ(after("x86_64", {"movq mdl_cell_0(%r11), %rax", "testq %rax, %rax", "je L1", "L1:"}, {"%rax"}),
            "\tcmpq $0, mdl_cell_0(%r11)\n.L0_1:\n");
  EXPECT_EQ(
      after("x86_64", {"movq mdl_cell_0+8(%r11), %rax", "cmpq $-5, %rax", "je L1", "movq $1, %r10", "L1:"},
            {"%rax", "%r10"}),
      same({"cmpq $-5, mdl_cell_0+8(%r11)", "je L1", "movq $1, %r10", "L1:"}));
  EXPECT_EQ(after("x86_64", {"movq mdl_cell_0(%r11), %rax", "movq %rdi, %r10", "subq %rax, %r10"},
                  {"%rax", "%r10"}),
            same({"movq %rdi, %r10", "subq mdl_cell_0(%r11), %r10"}));
}

TEST(Peephole, WhatIsReadLaterStays) {
  const std::vector<std::string> later = {"movq mdl_cell_0(%r11), %rax", "cmpq $5, %rax", "je L1",
                                          "addq %rax, mdl_cell_1(%r11)", "L1:"};
  EXPECT_EQ(after("x86_64", later, {"%rax"}), same(later));
  // Behind a jump, too; and where the stencil ends, when the register is not the stencil's to lose.
  const std::vector<std::string> jumped = {
      "movq mdl_cell_0(%r11), %rax", "cmpq $5, %rax", "je L1", "movq $0, %rax", "L1:",
      "addq %rax, mdl_cell_1(%r11)"};
  EXPECT_EQ(after("x86_64", jumped, {"%rax"}), same(jumped));
  const std::vector<std::string> kept = {"movq mdl_cell_0(%r11), %rax", "cmpq $5, %rax"};
  EXPECT_EQ(after("x86_64", kept, {}), same(kept));
  // The register that is added to is another one.
  const std::vector<std::string> doubled = {"movq mdl_cell_0(%r11), %rax", "addq %rax, %rax"};
  EXPECT_EQ(after("x86_64", doubled, {"%rax"}), same(doubled));
}

// A routine reads and keeps what the pass knows nothing of.
TEST(Peephole, UnknownInstructionsReadEverything) {
  const std::vector<std::string> call = {"movq mdl_cell_0(%r11), %r10", "cmpq $5, %r10",
                                         "call mdl_routine_read"};
  EXPECT_EQ(after("x86_64", call, {"%r10"}), same(call));
}

TEST(Peephole, JumpsToWhatFollowsGo) {
  EXPECT_EQ(after("x86_64", {"jmp L1", "L2:", "L1:", "addq $1, mdl_cell_0(%r11)"}, {}),
            same({"L2:", "L1:", "addq $1, mdl_cell_0(%r11)"}));
  const std::vector<std::string> over = {"jmp L1", "addq $1, mdl_cell_0(%r11)", "L1:"};
  EXPECT_EQ(after("x86_64", over, {}), same(over));
}

TEST(Peephole, AProductIsPartOfTheAddition) {
  EXPECT_EQ(after("aarch64", {"mul x9, x1, x2", "add x10, x3, x9"}, {"x9", "x10"}),
            same({"madd x10, x1, x2, x3"}));
  // x9 is added to itself: there is no product left to add.
  const std::vector<std::string> doubled = {"mul x9, x1, x2", "add x9, x9, x9"};
  EXPECT_EQ(after("aarch64", doubled, {"x9"}), same(doubled));
}

TEST(Peephole, ShortNumbersArePartOfTheInstruction) {
  EXPECT_EQ(after("riscv64", {"li t1, 2", "xor t3, t3, t1", "seqz t3, t3"}, {"t1", "t3"}),
            same({"xori t3, t3, 2", "seqz t3, t3"}));
  const std::vector<std::string> wide = {"li t1, 4096", "xor t3, t3, t1"};
  EXPECT_EQ(after("riscv64", wide, {"t1", "t3"}), same(wide));
}

// Fewer registers are written, so fewer are saved.
TEST(Peephole, ClobbersAreWhatIsLeft) {
  auto parsed = ir::parse(
      "snippet s at entry temps 3 labels 1 from 0:1:1 {\ncell a counter\ncell b counter\n"
      "%0 = load a\n%1 = load b\n%2 = lt %0, %1\njump_zero %2, L0\nadd_cell a, 1\nL0:\n}");
  ASSERT_TRUE(parsed) << parsed.error().text;
  const Target& target = *find_target("x86_64");
  EXPECT_EQ(make_stencil(parsed->at(0), target, false)->info.clobbers, std::vector<std::string>{"rax"});
  EXPECT_EQ(make_stencil(parsed->at(0), target, true)->info.clobbers, std::vector<std::string>());
}

}  // namespace
}  // namespace mdl::backend
