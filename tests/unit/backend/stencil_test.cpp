// Small snippets as assembly: what is selected, which registers it costs, what is refused.
// That the code is right is shown by tests/exec, which runs it.
#include "backend/stencil.h"

#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace mdl::backend {
namespace {

const Target& x86_64() {
  return *find_target("x86_64");
}

ir::Snippet snippet(const std::string& body, const std::string& point = "entry", int temps = 6) {
  auto parsed = ir::parse("snippet s at " + point + " temps " + std::to_string(temps) +
                          " labels 3 from 0:1:1 {\ncell c counter\ncell f flag\n" + body + "\n}");
  EXPECT_TRUE(parsed) << parsed.error().text;
  return parsed->at(0);
}

StencilText stencil(const std::string& body, const std::string& point = "entry", bool peepholes = true) {
  auto made = make_stencil(snippet(body, point), x86_64(), peepholes);
  EXPECT_TRUE(made) << made.error().text;
  return *made;
}
// As it is selected, before the peephole pass.
StencilText selected(const std::string& body, const std::string& point = "entry") {
  return stencil(body, point, false);
}

std::string code(const std::string& body, const std::string& point = "entry") {
  return assembly(stencil(body, point), 0);
}

using Names = std::vector<std::string>;

TEST(Stencil, ACounterIsOneInstruction) {
  EXPECT_EQ(code("add_cell c, 1"), "\taddq $1, mdl_cell_0(%r11)\n");
  EXPECT_EQ(code("add_cell c, -5"), "\taddq $-5, mdl_cell_0(%r11)\n");
  EXPECT_EQ(code("%0 = arg 1\nadd_cell c, %0"), "\taddq %rsi, mdl_cell_0(%r11)\n");
  EXPECT_EQ(code("add_cell c, 4294967296"), "\tmovabsq $4294967296, %r10\n\taddq %r10, mdl_cell_0(%r11)\n");
  EXPECT_EQ(stencil("add_cell c, 4294967296").info.clobbers, Names());  // %r10 is free
}

TEST(Stencil, InputsStayWhereTheyAre) {
  StencilText s = stencil("%0 = arg 0\n%1 = eq %0, 5\njump_zero %1, L0\nadd_cell c, 1\nL0:");
  EXPECT_EQ(assembly(s, 7), "\tcmpq $5, %rdi\n\tjne .L7_0\n\taddq $1, mdl_cell_0(%r11)\n.L7_0:\n");
  EXPECT_EQ(s.info.clobbers, Names());
  EXPECT_EQ(s.info.instructions, 3u);
  EXPECT_TRUE(s.info.writes_flags);
}

TEST(Stencil, MovesLeaveTheFlagsAlone) {
  StencilText s = stencil("%0 = result\nstore c, %0\nstore f, 0", "return");
  EXPECT_EQ(assembly(s, 0), "\tmovq %rax, mdl_cell_0(%r11)\n\tmovq $0, mdl_cell_1(%r11)\n");
  EXPECT_FALSE(s.info.writes_flags);
}

TEST(Stencil, ReleaseOfOneNeedsNoLimit) {
  EXPECT_EQ(code("release f, 1"),
            "\tcmpq $0, mdl_cell_1(%r11)\n\tjle .L0_3\n\tsubq $1, mdl_cell_1(%r11)\n\tjmp .L0_4\n.L0_3:\n"
            "\taddq $1, mdl_anomalies(%r11)\n.L0_4:\n");
  EXPECT_EQ(stencil("release f, 1").info.instructions, 4u);
  EXPECT_NE(code("release f, 2").find("jns"), std::string::npos);
}

TEST(Stencil, TakesRegistersThatCostLittle) {
  // The second value needs a register besides the free %r10: %rax at an entry ...
  const std::string two = "%0 = load c\n%1 = load f\n%2 = sub %0, %1\nstore c, %2";
  EXPECT_EQ(selected(two).info.clobbers, Names{"rax"});
  // ... which holds the result at a return.
  EXPECT_EQ(selected(two, "return").info.clobbers, Names{"r9"});
  // A division has its registers, and they are then used for the rest too.
  EXPECT_EQ(selected("%0 = load c\n%1 = load f\n%2 = div %0, %1\nstore c, %2").info.clobbers,
            (Names{"rax", "rdx"}));
}

TEST(Stencil, DropsCodeThatIsNotReached) {
  const std::string around = "jump L0\nadd_cell c, 1\nL0:\nadd_cell c, 2";
  EXPECT_EQ(assembly(selected(around), 0), "\tjmp .L0_0\n.L0_0:\n\taddq $2, mdl_cell_0(%r11)\n");
  EXPECT_EQ(code(around), "\taddq $2, mdl_cell_0(%r11)\n");
}

TEST(Stencil, CountsTheLongestPath) {
  EXPECT_EQ(
      stencil("%0 = arg 0\njump_zero %0, L0\nadd_cell c, 1\nadd_cell c, 2\njump L1\nL0:\nadd_cell c, 3\nL1:")
          .info.instructions,
      5u);
}

TEST(Stencil, RefusesWhatIsNotInARegister) {
  auto made = make_stencil(snippet("%0 = arg 6\nstore c, %0"), x86_64());
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text.find("$arg[6] is passed on the stack on x86_64; only $arg[0] to $arg[5]"),
            std::string::npos);
}

TEST(Stencil, RefusesWhatNeedsTooManyRegisters) {
  auto with = [](int values) {
    std::string body;
    for (int i = 0; i < values; i++) body += "%" + std::to_string(i) + " = load c\n";
    for (int i = 0; i < values; i++) body += "add_cell f, %" + std::to_string(i) + "\n";
    return make_stencil(snippet(body, "entry", values), x86_64());
  };
  EXPECT_TRUE(with(14));
  ASSERT_FALSE(with(15));
  EXPECT_NE(with(15).error().text.find("more than the 14 registers"), std::string::npos);
}

TEST(Stencil, RefusesIrThatDoesNotVerify) {
  auto made = make_stencil(snippet("store c, %0"), x86_64());
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text.find("internal error"), std::string::npos);
}

TEST(Stencil, Guard) {
  StencilText guard = make_guard(x86_64());
  EXPECT_EQ(assembly(guard, 0), "\tcmpq $0, mdl_guard(%r11)\n\tje mdl_next\n");
  EXPECT_EQ(guard.info.name, "mdl.guard");
  EXPECT_TRUE(guard.info.writes_flags);
}

TEST(Target, ByName) {
  EXPECT_EQ(find_target("x86_64")->name, "x86_64");
  EXPECT_EQ(find_target("vax"), nullptr);
}

}  // namespace
}  // namespace mdl::backend
