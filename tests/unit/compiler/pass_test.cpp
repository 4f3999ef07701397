// Each pass alone, as text before and after. That results stay the same is shown by
// tests/exec on random snippets.
#include <gtest/gtest.h>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/constant_fold.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/passes.h"

namespace mdl::passes {
namespace {

constexpr const char* kHead = "snippet s at entry temps 6 labels 3 from 0:1:1 {\n  cell c counter\n";

ir::Snippet snippet(const std::string& body) {
  auto parsed = ir::parse(kHead + body + "}\n");
  EXPECT_TRUE(parsed) << parsed.error().text;
  EXPECT_TRUE(ir::verify(parsed->at(0)));
  return parsed->at(0);
}

std::string after(void (*pass)(ir::Snippet&), const std::string& body) {
  ir::Snippet s = snippet(body);
  pass(s);
  Result<void> verified = ir::verify(s);
  EXPECT_TRUE(verified) << verified.error().text;
  return ir::print(s).substr(std::string(kHead).size());
}

TEST(ConstantFold, ComputesWhatIsKnown) {
  EXPECT_EQ(after(constant_fold, "  %0 = copy 6\n  %1 = mul %0, 7\n  add_cell c, %1\n"),
            "  %0 = copy 6\n  %1 = copy 42\n  add_cell c, 42\n}\n");
  EXPECT_EQ(after(constant_fold, "  %0 = div 1, 0\n  %1 = neg %0\n  store c, %1\n"),
            "  %0 = copy 0\n  %1 = copy 0\n  store c, 0\n}\n");
}

TEST(ConstantFold, PassesCopiesOnUntilEitherIsWritten) {
  EXPECT_EQ(
      after(constant_fold, "  %0 = arg 0\n  %1 = copy %0\n  store c, %1\n  %0 = arg 1\n  store c, %1\n"),
      "  %0 = arg 0\n  %1 = copy %0\n  store c, %0\n  %0 = arg 1\n  store c, %1\n}\n");
}

TEST(ConstantFold, Identities) {
  const std::pair<const char*, const char*> cases[] = {
      {"add %0, 0", "%0"}, {"add 0, %0", "%0"}, {"sub %0, 0", "%0"}, {"sub %0, %0", "0"}, {"mul %0, 1", "%0"},
      {"mul 1, %0", "%0"}, {"mul %0, 0", "0"},  {"mul 0, %0", "0"},  {"div %0, 1", "%0"}, {"div %0, 0", "0"},
      {"div 0, %0", "0"},  {"eq %0, %0", "1"},  {"le %0, %0", "1"},  {"ge %0, %0", "1"},  {"ne %0, %0", "0"},
      {"lt %0, %0", "0"},  {"gt %0, %0", "0"},
  };
  for (auto [operation, result] : cases)
    EXPECT_EQ(after(constant_fold, std::string("  %0 = arg 0\n  %1 = ") + operation + "\n  store c, %1\n"),
              std::string("  %0 = arg 0\n  %1 = copy ") + result + "\n  store c, " + result + "\n}\n");
  // Not an identity: 0 - x, x / x (x may be 0).
  for (const char* operation : {"sub 0, %0", "div %0, %0"})
    EXPECT_EQ(after(constant_fold, std::string("  %0 = arg 0\n  %1 = ") + operation + "\n  store c, %1\n"),
              std::string("  %0 = arg 0\n  %1 = ") + operation + "\n  store c, %1\n}\n");
}

TEST(ConstantFold, MeetsAtLabels) {
  const std::string head = "  %0 = arg 0\n  %1 = copy 1\n  jump_zero %0, L0\n";
  EXPECT_EQ(after(constant_fold, head + "  %1 = copy 2\nL0:\n  store c, %1\n"),
            head + "  %1 = copy 2\nL0:\n  store c, %1\n}\n");
  EXPECT_EQ(after(constant_fold, head + "  %1 = copy 1\nL0:\n  store c, %1\n"),
            head + "  %1 = copy 1\nL0:\n  store c, 1\n}\n");
}

TEST(ConstantFold, DecidesJumps) {
  EXPECT_EQ(after(constant_fold, "  jump_zero 0, L0\n  add_cell c, 1\nL0:\n  add_cell c, 2\n"),
            "  jump L0\nL0:\n  add_cell c, 2\n}\n");
  EXPECT_EQ(after(constant_fold, "  jump_zero 5, L0\n  add_cell c, 1\nL0:\n  add_cell c, 2\n"),
            "  add_cell c, 1\nL0:\n  add_cell c, 2\n}\n");
}

TEST(DeadCode, RemovesUnreadResults) {
  EXPECT_EQ(after(dead_code, "  %0 = arg 0\n  %1 = div %0, 3\n  %2 = load c\n  add_cell c, 1\n"),
            "  add_cell c, 1\n}\n");
  EXPECT_EQ(after(dead_code, "  %0 = copy 1\n  %0 = copy 2\n  store c, %0\n"),
            "  %0 = copy 2\n  store c, %0\n}\n");
}

TEST(DeadCode, KeepsWhatOnePathReads) {
  const std::string body =
      "  %0 = arg 0\n  %1 = copy 1\n  jump_zero %0, L0\n  %1 = copy 2\nL0:\n  store c, %1\n";
  EXPECT_EQ(after(dead_code, body), body + "}\n");
}

TEST(DeadCode, RemovesUnreachedCodeAndIdleJumps) {
  EXPECT_EQ(after(dead_code, "  jump L0\n  add_cell c, 1\n  jump L1\nL0:\n  add_cell c, 2\nL1:\n"),
            "  add_cell c, 2\n}\n");
  // The condition goes with its jump, and what computed it.
  EXPECT_EQ(after(dead_code, "  %0 = arg 0\n  %1 = eq %0, 1\n  jump_zero %1, L0\n  %2 = load c\nL2:\nL0:\n"),
            "}\n");
}

TEST(Passes, TogetherAndOneByOne) {
  const std::string body = "  %0 = copy 1\n  jump_zero %0, L0\n  add_cell c, %0\nL0:\n";
  auto with = [&](std::set<std::string, std::less<>> disabled) {
    ir::Snippet s = snippet(body);
    EXPECT_TRUE(run_passes(s, disabled));
    return ir::print(s).substr(std::string(kHead).size());
  };
  EXPECT_EQ(with({}), "  add_cell c, 1\n}\n");
  EXPECT_EQ(with({"constant-fold"}), body + "}\n");
  EXPECT_EQ(with({"dead-code"}), "  %0 = copy 1\n  add_cell c, 1\nL0:\n}\n");
  EXPECT_TRUE(is_pass("dead-code"));
  EXPECT_FALSE(is_pass("dead"));
}

}  // namespace
}  // namespace mdl::passes
