// The verifier: each rule is broken once, and what keeps to them passes.
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"

namespace mdl::ir {
namespace {

Snippet snippet(const std::string& body, const std::string& point = "entry") {
  Result<std::vector<Snippet>> parsed =
      parse("snippet s at " + point + " temps 4 labels 3 from 0:1:1 {\ncell c counter\n" + body + "\n}");
  EXPECT_TRUE(parsed) << parsed.error().text;
  return parsed->at(0);
}

std::string wrong(const Snippet& s) {
  Result<void> result = verify(s);
  return result ? "" : result.error().text;
}

TEST(IrVerify, AcceptsWhatIsDefinedOnAllPaths) {
  EXPECT_EQ(wrong(snippet("")), "");
  EXPECT_EQ(wrong(snippet(R"(
    %0 = arg 0
    jump_zero %0, L0
    %1 = copy 1
    jump L1
L0:
    %1 = copy 2
L1:
    add_cell c, %1)")),
            "");
  // Nothing reaches the read, so nothing is wrong with it.
  EXPECT_EQ(wrong(snippet("jump L0\n add_cell c, %3\nL0:")), "");
  // ... and a jump from there adds no path.
  EXPECT_EQ(wrong(snippet("%1 = copy 1\n jump L0\n jump L1\nL0:\n add_cell c, %1\nL1:")), "");
}

TEST(IrVerify, RefusesReadsBeforeWrites) {
  EXPECT_NE(wrong(snippet("add_cell c, %1")).find("%1 is not written on every path"), std::string::npos);
  EXPECT_NE(wrong(snippet("%0 = add %0, 1")).find("%0 is not written"), std::string::npos);
  // Written on the one path only.
  EXPECT_NE(
      wrong(snippet("%0 = arg 0\n jump_zero %0, L0\n %1 = copy 1\nL0:\n store c, %1")).find("%1 is not"),
      std::string::npos);
  // Two jumps to one label, of which one has not written.
  EXPECT_NE(wrong(snippet("%0 = arg 0\n jump_zero %0, L0\n %1 = copy 1\n jump L0\nL0:\n store c, %1"))
                .find("%1 is"),
            std::string::npos);
}

TEST(IrVerify, RefusesWrongFlow) {
  EXPECT_NE(wrong(snippet("L0:\n jump L0")).find("jumps backward"), std::string::npos);
  EXPECT_NE(wrong(snippet("L0:\nL0:")).find("stands twice"), std::string::npos);
  EXPECT_NE(wrong(snippet("jump L2")).find("jump to L2 has no label further on"), std::string::npos);
  EXPECT_NE(wrong(snippet("jump L1\n jump L2\nL1:")).find("jump to L2 has no label"), std::string::npos);
}

TEST(IrVerify, RefusesWrongPoints) {
  EXPECT_NE(wrong(snippet("%0 = result")).find("entry points have no $return"), std::string::npos);
  EXPECT_NE(wrong(snippet("%0 = arg 0", "return")).find("return points have no $arg"), std::string::npos);
  EXPECT_EQ(wrong(snippet("%0 = result", "call_after")), "");
  EXPECT_EQ(wrong(snippet("%0 = arg 0", "call")), "");
}

TEST(IrVerify, RefusesWrongWidths) {
  for (const char* width : {"8", "16", "32", "-8", "-16", "-32"})
    EXPECT_EQ(wrong(snippet(std::string("%0 = arg 0\n %1 = extend %0, ") + width)), "");
  for (const char* width : {"0", "64", "-64", "9", "-9223372036854775808"})
    EXPECT_NE(wrong(snippet(std::string("%0 = arg 0\n %1 = extend %0, ") + width)).find("no such width"),
              std::string::npos);
  EXPECT_NE(wrong(snippet("%0 = arg 0\n %1 = extend %0, %0")).find("must be a number"), std::string::npos);
}

// Shapes that the text form cannot spell.
TEST(IrVerify, RefusesWrongShapes) {
  const Snippet good = snippet("%0 = arg 0\n %1 = add %0, 1\n jump_zero %1, L0\n store c, %1\nL0:");
  ASSERT_EQ(wrong(good), "");
  auto broken = [&](auto change) {
    Snippet copy = good;
    change(copy);
    return wrong(copy);
  };
  auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.name = ""; }), "no name"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.temps = kMaxTemps + 1; }), "more than"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.labels = kMaxLabels + 1; }), "more than"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.cells.push_back(s.cells[0]); }), "two cells are called"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.cells[0].name = ""; }), "a cell has no name"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[0].dst = kNoTemp; }), "destination is no temporary"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[0].dst = 4; }), "destination is no temporary"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[3].dst = 0; }), "it has no destination"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[1].b = {}; }), "wrong number of operands"));
  EXPECT_TRUE(
      contains(broken([](Snippet& s) { s.insts[0].a = Operand::imm(1); }), "wrong number of operands"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[1].a = Operand::temp(4); }), "no such temporary"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[1].a.value = -1; }), "no such temporary"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[0].index = 16; }), "number is too large"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[1].index = 1; }), "it has no field"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[2].index = 3; }), "no such label"));
  EXPECT_TRUE(contains(broken([](Snippet& s) { s.insts[3].index = 1; }), "no such cell"));
}

}  // namespace
}  // namespace mdl::ir
