// Predictions for code whose cost is known: by LLVM's models as llvm-mca 19 prints them, by what
// docs/benchmarks.md says was measured, and by what must hold of any: more work never costs less.
#include "backend/cycles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/ir/text.h"

namespace mdl::backend {
namespace {

constexpr const char* kCells =
    "cell a counter\ncell b counter\ncell c counter\ncell d counter\ncell e counter\ncell f counter\n"
    "cell cpu process_timer\ncell wall wall_timer\n";

// The plan of one snippet, predicted.
PlanText predicted(const std::string& target, const std::string& cpu, const std::string& body,
                   int labels = 0) {
  auto parsed = ir::parse(fmt::format("snippet s_entry at entry temps 4 labels {} from 0:1:1 {{\n{}{}\n}}",
                                      labels, kCells, body));
  EXPECT_TRUE(parsed) << parsed.error().text;
  std::vector<RefusedSnippet> refusals;
  PlanText plan = make_plan({{}, *parsed}, *find_target(target), refusals);
  EXPECT_TRUE(refusals.empty());
  auto done = predict(plan, *find_target(target), cpu);
  EXPECT_TRUE(done) << done.error().text;
  return plan;
}
uint32_t cycles(const std::string& target, const std::string& cpu, const std::string& body, int labels = 0) {
  return predicted(target, cpu, body, labels).manifest.stencils[0].cycles;
}

// llvm-mca -mcpu=skylake -noalias: 209 cycles for 200 times `addq $1, 64(%r11)`, 9 of them to start and end.
TEST(Cycles, AreTheModels) {
  EXPECT_EQ(cycles("x86_64", "skylake", "add_cell a, 1"), 100u);
  EXPECT_EQ(cycles("x86_64", "skylake", "add_cell a, 1\nadd_cell b, 1\nadd_cell c, 1"), 300u);
  EXPECT_EQ(cycles("x86_64", "skylake", ""), 0u);
}

// But for a cycle: a pipeline may be filled better with more.
TEST(Cycles, MoreWorkNeverCostsLess) {
  for (const auto& [target, cpu] :
       {std::pair("x86_64", "sapphirerapids"), std::pair("x86_64", "x86-64"), std::pair("x86_64", "znver3"),
        std::pair("aarch64", "neoverse-n1"), std::pair("riscv64", "sifive-u74")}) {
    std::string body;
    uint32_t before = 0;
    for (const char* more : {"add_cell a, 1", "%0 = arg 0\n%1 = mul %0, 5\nadd_cell b, %1",
                             "start_timer wall", "%2 = load c\nstore d, %2", "stop_timer wall",
                             "%3 = div %1, 7\nadd_cell e, %3", "start_timer cpu", "add_cell f, 2"}) {
      body += std::string(more) + "\n";
      const uint32_t now = cycles(target, cpu, body);
      EXPECT_GE(now + 100, before) << target << " " << cpu << "\n" << body;
      before = now;
    }
    EXPECT_GT(before, 0u);
  }
}

// The models know when rdtsc has its answer, and the throughput of shorter divisions.
TEST(Cycles, WhatWasMeasuredIsBelieved) {
  const uint32_t timer = cycles("x86_64", "sapphirerapids", "start_timer wall");
  EXPECT_GT(timer, 2900u);
  EXPECT_LT(timer, 3400u);
  const std::string division = "%0 = arg 0\n%1 = div %0, 7\nadd_cell a, %1";
  EXPECT_EQ(cycles("x86_64", "sapphirerapids", division), 1000u);
  EXPECT_GT(cycles("x86_64", "znver3", division), 1000u);
}

// A path counts as the one with most instructions, not as what two paths have together.
TEST(Cycles, OfTheLongestPath) {
  const std::string one = "%0 = arg 0\njump_zero %0, L0\nadd_cell a, 1\nadd_cell b, 1\nadd_cell c, 1\nL0:";
  const std::string two =
      "%0 = arg 0\njump_zero %0, L0\nadd_cell a, 1\nadd_cell b, 1\nadd_cell c, 1\njump L1\n"
      "L0:\nadd_cell d, 1\nL1:";
  const uint32_t alone = cycles("x86_64", "skylake", one, 1);
  EXPECT_GE(alone, 300u);
  EXPECT_LE(cycles("x86_64", "skylake", two, 2), alone + 100);
}

TEST(Cycles, RoutinesAreApart) {
  const auto of_cpu = format::info(format::Routine::cpu).nanoseconds;
  const auto once = predicted("x86_64", "skylake", "start_timer cpu").manifest.stencils[0];
  EXPECT_EQ(once.routine_ns, of_cpu);
  EXPECT_LT(once.cycles, 1000u);
  EXPECT_EQ(predicted("x86_64", "skylake", "start_timer cpu\nstop_timer cpu").manifest.stencils[0].routine_ns,
            2 * of_cpu);
  EXPECT_EQ(predicted("x86_64", "skylake", "start_timer wall").manifest.stencils[0].routine_ns, 0u);
}

TEST(Cycles, ACpuWithoutAModelIsTheTargetsDefault) {
  EXPECT_EQ(predicted("riscv64", "veyron-v1", "add_cell a, 1").manifest.cpu, "sifive-u74");
  EXPECT_EQ(predicted("riscv64", "sifive-u74", "add_cell a, 1").manifest.cpu, "sifive-u74");
  EXPECT_EQ(predicted("aarch64", "cortex-a76", "add_cell a, 1").manifest.cpu, "cortex-a76");
}

}  // namespace
}  // namespace mdl::backend
