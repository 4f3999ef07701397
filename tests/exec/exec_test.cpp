// Generated code does what the interpreter says, with every combination of passes, and
// nothing else: no register, flag or byte of the block changes that is not declared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <limits>

#include "backend/stencil.h"
#include "compiler/ir/text.h"
#include "compiler/passes/passes.h"
#include "native.h"
#include "random_snippet.h"

namespace mdl::exec {
namespace {

using Disabled = std::set<std::string, std::less<>>;
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::string values(const ir::Machine& machine) {
  return fmt::format("args {} result {} constants {} cells {} anomalies {}", fmt::join(machine.args, ","),
                     machine.result, fmt::join(machine.constants, ","), fmt::join(machine.cells, ","),
                     machine.anomalies);
}

// "" when the stencil does what the snippet means.
std::string differs(const ir::Snippet& snippet, const plan::Stencil& stencil, const ir::Machine& machine,
                    Page& page) {
  ir::Machine expected = machine, actual = machine;
  ir::interpret(snippet, expected);
  actual.constants = bound(stencil.info.constants, machine.constants);
  std::string wrong = run(stencil, actual, page);
  if (!wrong.empty()) return wrong + " with " + values(machine);
  if (actual.cells == expected.cells && actual.anomalies == expected.anomalies) return "";
  return fmt::format("with {}\n  expected {}\n  got      {}", values(machine), values(expected),
                     values(actual));
}

// Compiles one snippet and runs it; "" also when the backend refuses it.
std::string check(const ir::Snippet& snippet, const Disabled& disabled,
                  const std::vector<ir::Machine>& machines, Page& page) {
  ir::Snippet optimized = snippet;
  if (auto passed = passes::run_passes(optimized, disabled); !passed) return passed.error().text;
  Result<Compiled> compiled = compile({optimized});
  if (!compiled) return compiled.error().text;
  if (compiled->plan.stencils.empty()) return "";
  for (const ir::Machine& machine : machines)
    if (std::string wrong = differs(snippet, compiled->plan.stencils[0], machine, page); !wrong.empty())
      return wrong;
  return "";
}

std::string report(const ir::Snippet& snippet, const Disabled& disabled,
                   const std::vector<ir::Machine>& machines, Page& page) {
  ir::Snippet small =
      shrink(snippet, [&](const ir::Snippet& s) { return !check(s, disabled, machines, page).empty(); });
  ir::Snippet optimized = small;
  EXPECT_TRUE(passes::run_passes(optimized, disabled));
  auto stencil = backend::make_stencil(optimized, *backend::find_target("x86_64"));
  return fmt::format("without {}: {}\n{}compiled from\n{}{}", fmt::join(disabled, ","),
                     check(small, disabled, machines, page), ir::print(small), ir::print(optimized),
                     stencil ? backend::assembly(*stencil, 0) : stencil.error().text);
}

// Every pass, none, each alone, all but each: what two of them do to each other is in
// tests/exec/pass_test.cpp.
std::vector<Disabled> combinations() {
  std::vector<Disabled> result = {{}, {}};
  for (const passes::Pass& pass : passes::all_passes()) result[1].emplace(pass.name);
  for (const passes::Pass& pass : passes::all_passes()) {
    result.push_back({std::string(pass.name)});
    result.push_back(result[1]);
    result.back().erase(std::string(pass.name));
  }
  return result;
}

TEST(Exec, RandomSnippets) {
  constexpr size_t kBatches = 25, kBatch = 100, kMachines = 6;
  constexpr auto kTime = std::chrono::seconds(20);
  const char* wanted = std::getenv("MDL_SEED");
  const uint64_t seed = wanted ? std::strtoull(wanted, nullptr, 0) : 20261;
  fmt::print("seed {} (set MDL_SEED for another)\n", seed);
  Random random(seed);
  Page page;
  size_t ran = 0, refused = 0;
  const auto start = std::chrono::steady_clock::now();
  for (size_t batch = 0; batch < kBatches && std::chrono::steady_clock::now() - start < kTime; batch++) {
    std::vector<ir::Snippet> snippets;
    std::vector<ir::Machine> machines;
    for (size_t i = 0; i < kBatch; i++) snippets.push_back(random_snippet(random));
    for (size_t i = 0; i < kMachines; i++) machines.push_back(random_machine(random));
    for (const Disabled& disabled : combinations()) {
      std::vector<ir::Snippet> optimized = snippets;
      for (ir::Snippet& snippet : optimized) {
        auto passed = passes::run_passes(snippet, disabled);
        ASSERT_TRUE(passed) << passed.error().text;
      }
      Result<Compiled> compiled = compile(optimized);
      if (!compiled)
        for (const ir::Snippet& snippet : snippets)
          if (!check(snippet, disabled, machines, page).empty())
            FAIL() << report(snippet, disabled, machines, page);
      ASSERT_TRUE(compiled) << compiled.error().text;
      refused += compiled->refused.size();
      for (size_t i = 0; i < compiled->snippets.size(); i++)
        for (const ir::Machine& machine : machines) {
          const ir::Snippet& snippet = snippets[compiled->snippets[i]];
          if (!differs(snippet, compiled->plan.stencils[i], machine, page).empty())
            FAIL() << report(snippet, disabled, machines, page);
          ran++;
        }
    }
  }
  fmt::print("{} runs, {} snippets refused for want of registers\n", ran, refused);
  EXPECT_GT(ran, 1000u);
  EXPECT_LT(refused * kMachines * 20, ran);
}

ir::Snippet snippet(const std::string& body, const std::string& point = "entry") {
  auto parsed = ir::parse("snippet s at " + point +
                          " temps 9 labels 4 from 0:1:1 {\ncell a counter\ncell b counter\ncell f flag\n" +
                          body + "\n}");
  EXPECT_TRUE(parsed) << parsed.error().text;
  return parsed->at(0);
}

// Every pair of extremes through every arithmetic operation, with operands in registers
// and as immediates. The oracle here is arithmetic in 128 bits, not the interpreter.
int64_t expected(const std::string& op, int64_t a, int64_t b) {
  __extension__ using Wide = __int128;
  auto wrap = [](Wide value) { return static_cast<int64_t>(static_cast<uint64_t>(value)); };
  if (op == "add") return wrap(Wide{a} + b);
  if (op == "sub") return wrap(Wide{a} - b);
  if (op == "mul") return wrap(Wide{a} * b);
  if (op == "div") return b == 0 ? 0 : wrap(Wide{a} / b);
  if (op == "eq") return a == b;
  if (op == "ne") return a != b;
  if (op == "lt") return a < b;
  if (op == "le") return a <= b;
  if (op == "gt") return a > b;
  return a >= b;
}

TEST(Exec, ArithmeticAtTheExtremes) {
  const int64_t extremes[] = {0, 1, -1, 2, -3, 100, INT32_MAX, INT32_MIN, int64_t{INT32_MAX} + 1, kMax, kMin};
  Page page;
  for (const char* op : {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"}) {
    std::vector<ir::Snippet> snippets;
    for (int64_t a : extremes)
      for (int64_t b : extremes) {
        snippets.push_back(snippet(fmt::format("%0 = arg 2\n%1 = arg 0\n%2 = {} %0, %1\nstore a, %2", op)));
        snippets.push_back(snippet(fmt::format("%0 = arg 2\n%2 = {} %0, {}\nstore a, %2", op, b)));
        snippets.push_back(snippet(fmt::format("%1 = arg 0\n%2 = {} {}, %1\nstore a, %2", op, a)));
        snippets.push_back(snippet(fmt::format("%2 = {} {}, {}\nstore a, %2", op, a, b)));
      }
    Result<Compiled> compiled = compile(snippets);
    ASSERT_TRUE(compiled) << compiled.error().text;
    ASSERT_EQ(compiled->plan.stencils.size(), snippets.size());
    size_t at = 0;
    for (int64_t a : extremes)
      for (int64_t b : extremes)
        for (int form = 0; form < 4; form++) {
          ir::Machine machine;
          machine.args = {b, 0, a};
          machine.cells = {77, 0, 0};
          EXPECT_EQ(run(compiled->plan.stencils[at++], machine, page), "");
          EXPECT_EQ(machine.cells[0], expected(op, a, b)) << a << " " << op << " " << b << " form " << form;
        }
  }
}

// The same comparisons where a jump reads them and nothing else: cmp and jcc.
TEST(Exec, ComparisonsThatDecideJumps) {
  const int64_t extremes[] = {0, 1, -1, INT32_MAX, INT32_MIN, int64_t{INT32_MAX} + 1, kMax, kMin};
  Page page;
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    std::vector<ir::Snippet> snippets;
    const std::string jump = "\njump_zero %2, L0\nstore a, 1\nL0:";
    for (int64_t a : extremes)
      for (int64_t b : extremes)
        for (const std::string& operands : {std::string("%0, %1"), fmt::format("%0, {}", b),
                                            fmt::format("{}, %1", a), fmt::format("{}, {}", a, b)})
          snippets.push_back(
              snippet(fmt::format("%0 = arg 2\n%1 = arg 0\n%2 = {} {}{}", op, operands, jump)));
    Result<Compiled> compiled = compile(snippets);
    ASSERT_TRUE(compiled) << compiled.error().text;
    size_t at = 0;
    for (int64_t a : extremes)
      for (int64_t b : extremes)
        for (int form = 0; form < 4; form++) {
          ir::Machine machine;
          machine.args = {b, 0, a};
          machine.cells = {0, 0, 0};
          EXPECT_EQ(run(compiled->plan.stencils[at++], machine, page), "");
          EXPECT_EQ(machine.cells[0], expected(op, a, b)) << a << " " << op << " " << b << " form " << form;
        }
  }
}

// $return is read behind a division, which destroys its register; $arg[2] likewise.
TEST(Exec, InputsSurviveDivisions) {
  Page page;
  auto at_return = compile(
      {snippet("%0 = load a\n%1 = div 1000, %0\n%2 = result\n%2 = add %1, %2\nstore b, %2", "return")});
  ASSERT_TRUE(at_return) << at_return.error().text;
  ir::Machine machine;
  machine.result = 7;
  machine.cells = {10, 0, 0};
  EXPECT_EQ(run(at_return->plan.stencils[0], machine, page), "");
  EXPECT_EQ(machine.cells[1], 107);

  auto at_entry =
      compile({snippet("%0 = arg 2\n%1 = div %0, 3\n%2 = arg 2\n%3 = div %2, %1\nstore b, %3\nstore a, %0")});
  ASSERT_TRUE(at_entry) << at_entry.error().text;
  machine.args = {0, 0, 90};
  EXPECT_EQ(run(at_entry->plan.stencils[0], machine, page), "");
  EXPECT_EQ(machine.cells[0], 90);
  EXPECT_EQ(machine.cells[1], 3);
}

// What lies outside of a snippet, through the injector's reader and verifier.
TEST(Exec, EveryOperationIsAdmitted) {
  auto snippets = ir::parse(R"ir(snippet s_entry at entry temps 9 labels 1 from 0:1:1 {
  cell calls counter
  cell wall wall_timer
  cell cpu process_timer
  cell faults event_timer MINOR_FAULTS
  cell switches event_counter VOLUNTARY_SWITCHES
  cell out call
  variable "level"
  function "work"
  %0 = arg 3
  %1 = shl %0, %0
  %2 = shr 1000, %1
  %2 = shl %2, 65
  %3 = symbol 0
  %4 = thread
  %5 = address wall
  start_timer wall
  start_timer cpu
  start_timer faults
  stop_timer wall
  stop_timer cpu
  stop_timer faults
  sample_event switches
  %6 = read_address %5
  %7 = read_address 4294967296
  %8 = enter_call out
  jump_zero %8, L0
  call_arg out, %6, 0
  call_arg out, 4294967296, 5
  %8 = call out, 1
  add_cell calls, %8
  leave_call out
L0:
  store calls, %7
  add_cell calls, %1
  add_cell calls, %2
  add_cell calls, %3
  add_cell calls, %4
}
)ir");
  ASSERT_TRUE(snippets) << snippets.error().text;
  auto compiled = compile(*snippets);
  ASSERT_TRUE(compiled) << compiled.error().text;
  ASSERT_TRUE(compiled->refused.empty()) << compiled->refused[0];
  EXPECT_EQ(compiled->plan.stencils[0].info.routines,
            (std::vector{format::Routine::cpu, format::Routine::event, format::Routine::read,
                         format::Routine::call}));
}

TEST(Exec, Guard) {
  Page page;
  Result<Compiled> compiled = compile({});
  ASSERT_TRUE(compiled) << compiled.error().text;
  EXPECT_FALSE(passes_guard(compiled->plan.guard, 0, page));
  for (int64_t up : {int64_t{1}, int64_t{2}, int64_t{1} << 32, kMin})
    EXPECT_TRUE(passes_guard(compiled->plan.guard, up, page)) << up;
}

}  // namespace
}  // namespace mdl::exec
