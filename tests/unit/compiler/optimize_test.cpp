// The passes that find more than constants, as text before and after. That results stay the same is shown by
// tests/exec on random snippets.
#include <gtest/gtest.h>

#include "compiler/ir/pressure.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/bound_constants.h"
#include "compiler/passes/bound_guards.h"
#include "compiler/passes/common_subexpressions.h"
#include "compiler/passes/dead_stores.h"
#include "compiler/passes/jump_threading.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/strength_reduction.h"
#include "compiler/passes/unused_tables.h"

namespace mdl::passes::optimizing {
namespace {

constexpr const char* kHead =
    "snippet s at entry temps 9 labels 3 from 0:1:1 {\n"
    "  cell c counter\n"
    "  cell d counter\n"
    "  cell f flag\n"
    "  cell x call\n"
    "  constant {\"kind\":\"selected\",\"number\":0,\"position\":[0,0,0]}\n"
    "  variable \"v\"\n"
    "  function \"g\"\n";

ir::Snippet snippet(const std::string& body) {
  auto parsed = ir::parse(kHead + body + "}\n");
  EXPECT_TRUE(parsed) << parsed.error().text;
  auto verified = ir::verify(parsed->at(0));
  EXPECT_TRUE(verified) << verified.error().text;
  return parsed->at(0);
}

std::string body_of(const ir::Snippet& s) {
  Result<void> verified = ir::verify(s);
  EXPECT_TRUE(verified) << verified.error().text;
  std::string text;
  for (const ir::Inst& inst : s.insts) text += ir::print(inst, s) + "; ";
  return text;
}

std::string after(void (*pass)(ir::Snippet&), const std::string& body) {
  ir::Snippet s = snippet(body);
  pass(s);
  return body_of(s);
}

// Whether a second %1 is a copy of the first.
bool is_shared(const std::string& read, const std::string& between) {
  std::string text =
      after(common_subexpressions, "  %0 = arg 1\n  %1 = " + read + "\n" + between + "  %2 = " + read +
                                       "\n  %3 = add %1, %2\n  store d, %3\n");
  return text.find("%2 = copy %1; ") != std::string::npos;
}

TEST(CommonSubexpressions, OneReadOfWhatStays) {
  for (const char* read : {"arg 0", "constant 0", "thread", "address c", "symbol 0", "load c",
                           "read_address %0", "add %0, 7", "div %0, 3", "eq 1, %0"})
    EXPECT_TRUE(is_shared(read, "")) << read;
  EXPECT_EQ(
      after(common_subexpressions, "  %0 = arg 0\n  %1 = arg 1\n  %2 = mul %0, %1\n  %3 = mul %1, %0\n"),
      "%0 = arg 0; %1 = arg 1; %2 = mul %0, %1; %3 = copy %2; ");
}

TEST(CommonSubexpressions, NotAcrossWhatChangesIt) {
  const std::string to_function = "  %4 = call x, 1\n";
  EXPECT_FALSE(is_shared("load c", "  add_cell c, 1\n"));
  EXPECT_FALSE(is_shared("load f", "  release f, 1\n"));
  EXPECT_TRUE(is_shared("load c", "  add_cell f, 1\n"));
  EXPECT_FALSE(is_shared("read_address %0", "  add_cell f, 1\n"));
  EXPECT_TRUE(is_shared("symbol 0", "  add_cell f, 1\n"));
  for (const char* read : {"load c", "symbol 0", "read_address %0"})
    EXPECT_FALSE(is_shared(read, to_function)) << read;
  for (const char* read : {"arg 0", "constant 0", "add %0, 7"})
    EXPECT_TRUE(is_shared(read, to_function)) << read;
  EXPECT_FALSE(is_shared("add %0, 7", "  %0 = arg 2\n"));
  EXPECT_FALSE(is_shared("arg 0", "  %1 = arg 3\n"));
}

TEST(CommonSubexpressions, WhatWasStoredIsLoaded) {
  EXPECT_EQ(after(common_subexpressions, "  store c, 5\n  %0 = load c\n  store d, %0\n"),
            "store c, 5; %0 = copy 5; store d, %0; ");
}

TEST(CommonSubexpressions, OnEveryPathToHere) {
  EXPECT_EQ(
      after(
          common_subexpressions,
          "  %0 = arg 0\n  jump_zero %0, L0\n  %1 = div %0, 3\n  store c, %1\nL0:\n  %2 = div %0, 3\n  store "
          "d, %2\n"),
      "%0 = arg 0; jump_zero %0, L0; %1 = div %0, 3; store c, %1; L0:; %2 = div %0, 3; store d, %2; ");
}

TEST(CommonSubexpressions, RegistersAreFew) {
  std::string again;
  std::string many = "  %0 = arg 0\n";
  for (int i = 1; i < 8; i++) {
    many += "  %" + std::to_string(i) + " = div %0, " + std::to_string(i + 2) + "\n  add_cell c, %" +
            std::to_string(i) + "\n";
    again += "  %8 = div %0, " + std::to_string(i + 2) + "\n  add_cell d, %8\n";
  }
  EXPECT_LE(ir::pressure(snippet(many + again)), 7u);
  EXPECT_EQ(after(common_subexpressions, many + again), body_of(snippet(many + again)));
}

TEST(DeadStores, OverwrittenBeforeItIsRead) {
  EXPECT_EQ(after(dead_stores, "  store c, 1\n  add_cell c, 2\n  store c, 3\n"), "store c, 3; ");
  EXPECT_EQ(after(dead_stores, "  store c, 1\n  %0 = load c\n  store c, 3\n  store d, %0\n"),
            "store c, 1; %0 = load c; store c, 3; store d, %0; ");
  EXPECT_EQ(after(dead_stores, "  store f, 1\n  release f, 1\n  store f, 3\n"),
            "store f, 1; release f, 1; store f, 3; ");
  EXPECT_EQ(after(dead_stores, "  store c, 1\n  %0 = read_address 8\n  store c, %0\n"),
            "store c, 1; %0 = read_address 8; store c, %0; ");
  EXPECT_EQ(after(dead_stores, "  store c, 1\n  %0 = call x, 1\n  store c, %0\n"),
            "store c, 1; %0 = call x, 1; store c, %0; ");
}

TEST(DeadStores, OnEveryPath) {
  EXPECT_EQ(after(dead_stores, "  %0 = arg 0\n  store c, 1\n  jump_zero %0, L0\n  store c, 2\nL0:\n"),
            "%0 = arg 0; store c, 1; jump_zero %0, L0; store c, 2; L0:; ");
  EXPECT_EQ(after(dead_stores,
                  "  %0 = arg 0\n  store c, 1\n  jump_zero %0, L0\n  store c, 2\n  jump L1\nL0:\n  store c, "
                  "3\nL1:\n"),
            "%0 = arg 0; jump_zero %0, L0; store c, 2; jump L1; L0:; store c, 3; L1:; ");
}

TEST(DeadStores, WhatItHoldsAlready) {
  EXPECT_EQ(after(dead_stores, "  %0 = load c\n  store d, %0\n  store c, %0\n"),
            "%0 = load c; store d, %0; ");
  EXPECT_EQ(after(dead_stores, "  %0 = load c\n  add_cell c, 1\n  store c, %0\n"),
            "%0 = load c; store c, %0; ");
  EXPECT_EQ(after(dead_stores, "  %0 = load c\n  %0 = arg 0\n  store c, %0\n"),
            "%0 = load c; %0 = arg 0; store c, %0; ");
}

TEST(StrengthReduction, ComparisonsOfComparisons) {
  const std::string less = "  %0 = arg 0\n  %1 = lt %0, 5\n";
  EXPECT_EQ(after(strength_reduction, less + "  %2 = eq %1, 0\n"),
            "%0 = arg 0; %1 = lt %0, 5; %2 = ge %0, 5; ");
  EXPECT_EQ(after(strength_reduction, less + "  %2 = ne %1, 0\n  jump_zero %2, L0\nL0:\n"),
            "%0 = arg 0; %1 = lt %0, 5; %2 = copy %1; jump_zero %2, L0; L0:; ");
  EXPECT_EQ(after(strength_reduction, "  %0 = arg 0\n  %1 = add %0, 5\n  %2 = eq %1, 7\n"),
            "%0 = arg 0; %1 = add %0, 5; %2 = eq %0, 2; ");
  EXPECT_EQ(after(strength_reduction, "  %0 = arg 0\n  %1 = arg 1\n  %2 = sub %0, %1\n  %3 = ne %2, 0\n"),
            "%0 = arg 0; %1 = arg 1; %2 = sub %0, %1; %3 = ne %0, %1; ");
  EXPECT_EQ(after(strength_reduction, "  %0 = arg 0\n  %1 = lt 3, %0\n  %2 = add 1, %0\n  %3 = sub %0, 4\n"),
            "%0 = arg 0; %1 = gt %0, 3; %2 = add %0, 1; %3 = add %0, -4; ");
  // Not when what was compared has changed.
  EXPECT_EQ(after(strength_reduction, less + "  %0 = arg 1\n  %2 = eq %1, 0\n"),
            "%0 = arg 0; %1 = lt %0, 5; %0 = arg 1; %2 = eq %1, 0; ");
}

TEST(StrengthReduction, PowersOfTwo) {
  auto reduced = [](const std::string& operation) {
    std::string text = after(strength_reduction, "  %0 = arg 0\n  %1 = " + operation + "\n");
    return text.substr(text.find("; ") + 2);
  };
  EXPECT_EQ(reduced("mul %0, 8"), "%1 = shl %0, 3; ");
  EXPECT_EQ(reduced("mul 2, %0"), "%1 = shl %0, 1; ");
  EXPECT_EQ(reduced("mul %0, -9223372036854775808"), "%1 = shl %0, 63; ");
  EXPECT_EQ(reduced("mul %0, -1"), "%1 = neg %0; ");
  EXPECT_EQ(reduced("mul %0, 6"), "%1 = mul %0, 6; ");
  EXPECT_EQ(reduced("div %0, 8"), "%9 = shr %0, 63; %9 = and %9, 7; %9 = add %9, %0; %1 = shr %9, 3; ");
  EXPECT_EQ(reduced("div %0, -2"),
            "%9 = shr %0, 63; %9 = and %9, 1; %9 = add %9, %0; %9 = shr %9, 1; %1 = neg %9; ");
  EXPECT_EQ(reduced("div %0, -1"), "%1 = neg %0; ");
  EXPECT_EQ(reduced("div %0, -9223372036854775808"), "%1 = eq %0, -9223372036854775808; ");
  EXPECT_EQ(reduced("div %0, 10"), "%1 = div %0, 10; ");
  EXPECT_EQ(reduced("div 8, %0"), "%1 = div 8, %0; ");
}

TEST(StrengthReduction, SumsInPlace) {
  EXPECT_EQ(after(strength_reduction, "  %0 = load c\n  %1 = arg 0\n  %2 = add %1, %0\n  store c, %2\n"),
            "%0 = load c; %1 = arg 0; %2 = add %1, %0; add_cell c, %1; ");
  EXPECT_EQ(after(strength_reduction, "  %0 = load c\n  add_cell c, 2\n  %2 = add %0, 1\n  store c, %2\n"),
            "%0 = load c; add_cell c, 2; %2 = add %0, 1; store c, %2; ");
  EXPECT_EQ(after(strength_reduction, "  %0 = load c\n  %2 = add %0, 1\n  store d, %2\n"),
            "%0 = load c; %2 = add %0, 1; store d, %2; ");
}

TEST(JumpThreading, ToTheEnd) {
  EXPECT_EQ(
      after(
          jump_threading,
          "  %0 = arg 0\n  jump_zero %0, L0\n  add_cell c, 1\n  jump L1\nL0:\n  jump L2\nL1:\n  add_cell c, "
          "2\nL2:\n"),
      "%0 = arg 0; jump_zero %0, L2; add_cell c, 1; jump L1; L0:; jump L2; L1:; add_cell c, 2; L2:; ");
  EXPECT_EQ(
      after(
          jump_threading,
          "  %0 = arg 0\n  jump_zero %0, L0\n  %0 = arg 1\nL0:\n  jump_zero %0, L1\n  add_cell c, 1\nL1:\n"),
      "%0 = arg 0; jump_zero %0, L1; %0 = arg 1; L0:; jump_zero %0, L1; add_cell c, 1; L1:; ");
}

TEST(JumpThreading, AroundAJump) {
  EXPECT_EQ(after(jump_threading, "  %0 = arg 0\n  jump_zero %0, L0\n  jump L1\nL0:\n  add_cell c, 1\nL1:\n"),
            "%0 = arg 0; %9 = eq %0, 0; jump_zero %9, L1; L0:; add_cell c, 1; L1:; ");
}

TEST(BoundConstants, AreComputedByTheInjector) {
  ir::Snippet s = snippet(
      "  %0 = constant 0\n  %1 = add %0, 1\n  %2 = neg %1\n  %3 = arg 0\n  %4 = eq %3, %2\n  store c, %4\n");
  bound_constants(s);
  EXPECT_EQ(body_of(s),
            "%0 = constant 0; %1 = constant 1; %2 = constant 2; %3 = arg 0; %4 = eq %3, %2; store c, %4; ");
  EXPECT_EQ(
      format::write_expr(s.constants[2]),
      "{\"kind\":\"unary\",\"text\":\"-\",\"operands\":[{\"kind\":\"binary\",\"text\":\"+\",\"operands\":"
      "[{\"kind\":\"selected\",\"number\":0,\"position\":[0,0,0]},{\"kind\":\"integer\",\"number\":1,"
      "\"position\":[0,0,0]}],\"position\":[0,0,0]}],\"position\":[0,0,0]}");
  // A chain that doubles would grow without bound.
  std::string body = "  %0 = constant 0\n";
  for (int i = 0; i < 12; i++) body += "  %0 = add %0, %0\n";
  ir::Snippet doubled = snippet(body + "  store c, %0\n");
  bound_constants(doubled);
  EXPECT_LT(doubled.constants.size(), 7u);
}

Program placed(const std::string& body) {
  Program program;
  program.snippets.push_back(snippet(body));
  format::Placement insert;
  insert.kind = format::PlacementKind::insert;
  insert.position = {0, 3, 7};
  program.manifest.metrics.emplace_back().placement.push_back(insert);
  return program;
}

TEST(BoundGuards, BecomePlacements) {
  Program program = placed(
      "  %0 = constant 0\n  jump_zero %0, L0\n  %1 = arg 0\n  jump_zero %1, L0\n  add_cell c, 1\nL0:\n");
  bound_guards(program);
  EXPECT_EQ(body_of(program.snippets[0]),
            "%0 = constant 0; %1 = arg 0; jump_zero %1, L0; add_cell c, 1; L0:; ");
  const format::Placement& branch = program.manifest.metrics[0].placement[0];
  EXPECT_EQ(branch.kind, format::PlacementKind::if_);
  EXPECT_EQ(branch.expr.kind, format::ExprKind::selected);
  EXPECT_EQ(branch.position, (format::Position{0, 3, 7}));
  ASSERT_EQ(branch.body.size(), 1u);
  EXPECT_EQ(branch.body[0].kind, format::PlacementKind::insert);
}

TEST(BoundGuards, OnlyAroundEverything) {
  for (const char* body : {"  add_cell c, 1\n  %0 = constant 0\n  jump_zero %0, L0\n  add_cell c, 1\nL0:\n",
                           "  %0 = constant 0\n  jump_zero %0, L0\n  add_cell c, 1\nL0:\n  add_cell d, 1\n",
                           "  %0 = arg 0\n  jump_zero %0, L0\n  add_cell c, 1\nL0:\n"}) {
    Program program = placed(body);
    bound_guards(program);
    EXPECT_EQ(program.snippets[0], snippet(body));
    EXPECT_EQ(program.manifest.metrics[0].placement[0].kind, format::PlacementKind::insert);
  }
}

TEST(UnusedTables, WhatIsNamedStays) {
  ir::Snippet s = snippet("  add_cell d, 1\n  %0 = enter_call x\n  %0 = call x, 1\n  leave_call x\n");
  unused_tables(s);
  EXPECT_EQ(body_of(s), "add_cell d, 1; %0 = enter_call x; %0 = call x, 0; leave_call x; ");
  EXPECT_EQ(s.cells.size(), 2u);
  EXPECT_TRUE(s.constants.empty());
  EXPECT_EQ(s.symbols.size(), 1u);
}

}  // namespace
}  // namespace mdl::passes::optimizing
