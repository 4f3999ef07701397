// The oracle itself: what each operation means, in figures.
#include <gtest/gtest.h>

#include <limits>

#include "compiler/ir/interpret.h"
#include "compiler/ir/op_info.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"

namespace mdl::ir {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Machine run(const std::string& body, Machine machine, const std::string& point = "entry") {
  auto parsed = parse("snippet s at " + point +
                      " temps 4 labels 3 from 0:1:1 {\ncell c counter\ncell f flag\n" + body + "\n}");
  EXPECT_TRUE(parsed) << parsed.error().text;
  Result<void> verified = verify(parsed->at(0));
  EXPECT_TRUE(verified) << verified.error().text;
  machine.cells.resize(2);
  interpret(parsed->at(0), machine);
  return machine;
}

TEST(IrInterpret, ArithmeticWrapsAndNeverRaises) {
  EXPECT_EQ(evaluate(Op::add, kMax, 1), kMin);
  EXPECT_EQ(evaluate(Op::sub, kMin, 1), kMax);
  EXPECT_EQ(evaluate(Op::mul, kMin, -1), kMin);
  EXPECT_EQ(evaluate(Op::neg, kMin, 0), kMin);
  EXPECT_EQ(evaluate(Op::div, 7, 0), 0);
  EXPECT_EQ(evaluate(Op::div, -7, 2), -3);
  EXPECT_EQ(evaluate(Op::div, kMin, -1), kMin);
  EXPECT_EQ(evaluate(Op::lt, -1, 0), 1);
  EXPECT_EQ(evaluate(Op::ge, -1, 0), 0);
  EXPECT_EQ(evaluate(Op::le, 3, 3), 1);
  EXPECT_EQ(evaluate(Op::gt, 3, 3), 0);
  EXPECT_EQ(evaluate(Op::eq, 3, 3), 1);
  EXPECT_EQ(evaluate(Op::ne, 3, 3), 0);
  EXPECT_EQ(evaluate(Op::store, 3, 3), std::nullopt);
}

TEST(IrInterpret, ExtensionsKeepLowBitsAndTheirSign) {
  constexpr int64_t kDirty = 0x5a5a5a5a'00000000;
  EXPECT_EQ(evaluate(Op::extend, kDirty | 0xffffffff, 32), -1);
  EXPECT_EQ(evaluate(Op::extend, kDirty | 0xffffffff, -32), 0xffffffff);
  EXPECT_EQ(evaluate(Op::extend, kDirty | 0x7fffffff, 32), 0x7fffffff);
  EXPECT_EQ(evaluate(Op::extend, 0x18000, 16), -0x8000);
  EXPECT_EQ(evaluate(Op::extend, 0x18000, -16), 0x8000);
  EXPECT_EQ(evaluate(Op::extend, -1, -8), 0xff);
  EXPECT_EQ(evaluate(Op::extend, 0x17f, 8), 0x7f);
  for (int64_t wrong : {int64_t{0}, int64_t{1}, int64_t{33}, int64_t{64}, int64_t{-64}, kMin})
    EXPECT_EQ(evaluate(Op::extend, 1, wrong), std::nullopt) << wrong;
}

TEST(IrInterpret, InputsAndCells) {
  Machine machine;
  machine.args = {10, 20};
  machine.constants = {5};
  Machine after =
      run("constant {\"kind\":\"selected\",\"number\":0,\"position\":[0,0,0]}\n"
          "%0 = arg 1\n %1 = constant 0\n %0 = add %0, %1\n store c, %0\n add_cell c, -1",
          machine);
  EXPECT_EQ(after.cells[0], 24);
  EXPECT_EQ(run("%0 = arg 4\n store c, %0", machine).cells[0], 0);
  machine.result = -3;
  EXPECT_EQ(run("%0 = result\n store c, %0", machine, "return").cells[0], -3);
  machine.cells = {kMax, 0};
  EXPECT_EQ(run("add_cell c, 1", machine).cells[0], kMin);
}

TEST(IrInterpret, ReleaseNeverGoesBelowZero) {
  Machine machine;
  machine.cells = {0, 2};
  EXPECT_EQ(run("release f, 1", machine).cells[1], 1);
  EXPECT_EQ(run("release f, 1\n release f, 1", machine).cells[1], 0);
  EXPECT_EQ(run("release f, 1\n release f, 1\n release f, 1", machine).anomalies, 1);
  EXPECT_EQ(run("release f, 5", machine).cells[1], 0);
  EXPECT_EQ(run("release f, 5", machine).anomalies, 0);
  machine.cells = {0, -1};
  EXPECT_EQ(run("release f, 1", machine).cells[1], -1);
  EXPECT_EQ(run("release f, 1", machine).anomalies, 1);
}

TEST(IrInterpret, JumpsGoForward) {
  const char* body = R"(
    %0 = arg 0
    jump_zero %0, L0
    add_cell c, 10
    jump L1
L0:
    add_cell c, 1
L1:
    add_cell c, 100)";
  Machine machine;
  machine.args = {0};
  EXPECT_EQ(run(body, machine).cells[0], 101);
  machine.args = {7};
  EXPECT_EQ(run(body, machine).cells[0], 110);
}

}  // namespace
}  // namespace mdl::ir
