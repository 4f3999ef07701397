// Generated code does what the interpreter says, with every combination of passes, on every target, and
// nothing else: no register, flag or byte of the block changes that is not declared.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <span>

#include "backend/stencil.h"
#include "compiler/ir/text.h"
#include "compiler/passes/passes.h"
#include "tests/exec/batch.h"
#include "tests/exec/random_snippet.h"

namespace mdl::exec {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Sanitizers look for faults of the compiler, which show in fewer snippets than faults of the code that it makes.
#ifdef MDL_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class Exec : public testing::TestWithParam<const Host*> {
 protected:
  static const Host& host() { return *GetParam(); }

  // Every job runs and is right.
  static void expect_right(const std::vector<Job>& jobs) {
    auto verdicts = run(host(), jobs);
    ASSERT_TRUE(verdicts) << verdicts.error().text;
    for (size_t i = 0; i < jobs.size(); i++) {
      EXPECT_EQ((*verdicts)[i].refused, "") << ir::print(jobs[i].code);
      EXPECT_EQ((*verdicts)[i].wrong, "") << ir::print(jobs[i].code);
      EXPECT_EQ((*verdicts)[i].runs, jobs[i].inputs.size());
    }
  }
};

// "" when the snippet, with passes, is compiled and runs as it should, and when it is refused.
std::string check(const Host& host, const ir::Snippet& snippet, const passes::Disabled& disabled,
                  const std::vector<Inputs>& inputs) {
  ir::Snippet code = snippet;
  if (auto passed = passes::run_passes(code, disabled); !passed) return passed.error().text;
  auto verdicts = run(host, {{snippet, code, inputs, false, !passes::is_off("peephole", disabled)}});
  return verdicts ? (*verdicts)[0].wrong : verdicts.error().text;
}

std::string report(const Host& host, const ir::Snippet& snippet, const passes::Disabled& disabled,
                   const std::vector<Inputs>& inputs) {
  ir::Snippet small =
      shrink(snippet, [&](const ir::Snippet& s) { return !check(host, s, disabled, inputs).empty(); });
  ir::Snippet code = small;
  EXPECT_TRUE(passes::run_passes(code, disabled));
  auto stencil =
      backend::make_stencil(code, *backend::find_target(host.name), !passes::is_off("peephole", disabled));
  return fmt::format("without {}: {}\n{}compiled from\n{}{}", fmt::join(disabled, ","),
                     check(host, small, disabled, inputs), ir::print(small), ir::print(code),
                     stencil ? backend::assembly(*stencil, 0) : stencil.error().text);
}

// Every pass, none, each alone, all but each: what two of them do to each other is in
// tests/exec/pass_test.cpp.
std::vector<passes::Disabled> combinations() {
  std::vector<passes::Disabled> result = {{}, {}};
  for (const passes::Pass& pass : passes::all_passes()) result[1].emplace(pass.name);
  for (const passes::Pass& pass : passes::all_passes()) {
    result.push_back({std::string(pass.name)});
    result.push_back(result[1]);
    result.back().erase(std::string(pass.name));
  }
  return result;
}

TEST_P(Exec, RandomSnippets) {
  const char* many = std::getenv("MDL_EXEC_BATCHES");  // the long form
  const size_t batches = many ? std::strtoul(many, nullptr, 10) : kSanitized ? 1 : 2;
  constexpr size_t kSnippets = kSanitized ? 250 : 1000, kInputs = 2;
  const char* wanted = std::getenv("MDL_SEED");
  const uint64_t seed = wanted ? std::strtoull(wanted, nullptr, 0) : 20261;
  fmt::print("seed {} (set MDL_SEED for another)\n", seed);
  Random random(seed);
  const std::vector<passes::Disabled> all = combinations();
  size_t ran = 0, refused = 0;
  for (size_t batch = 0; batch < batches; batch++) {
    std::vector<Job> jobs;
    for (size_t i = 0; i < kSnippets; i++) {
      Job job;
      job.meaning = random_snippet(random, i % 3 ? Reach::world : Reach::machine);
      for (size_t n = 0; n < kInputs; n++) job.inputs.push_back(random_inputs(random, job.meaning));
      job.code = job.meaning;
      auto passed = passes::run_passes(job.code, all[i % all.size()]);
      ASSERT_TRUE(passed) << passed.error().text;
      job.peepholes = !passes::is_off("peephole", all[i % all.size()]);
      jobs.push_back(std::move(job));
    }
    auto verdicts = run(host(), jobs);
    // One that cannot be judged spoils the batch: each alone tells which.
    for (size_t i = 0; i < jobs.size(); i++) {
      const passes::Disabled& disabled = all[i % all.size()];
      const Job& job = jobs[i];
      const bool wrong = verdicts ? !(*verdicts)[i].wrong.empty()
                                  : !check(host(), job.meaning, disabled, job.inputs).empty();
      if (wrong) FAIL() << report(host(), job.meaning, disabled, job.inputs);
    }
    ASSERT_TRUE(verdicts) << verdicts.error().text;
    for (const Verdict& verdict : *verdicts) ran += verdict.runs, refused += !verdict.refused.empty();
  }
  fmt::print("{} runs, {} snippets refused for want of registers\n", ran, refused);
  EXPECT_GT(ran * 4, batches * kSnippets * 5);
  EXPECT_LT(refused * 10, batches * kSnippets);
}

ir::Snippet snippet(const std::string& body, const std::string& point = "entry") {
  auto parsed = ir::parse("snippet s at " + point +
                          " temps 9 labels 4 from 0:1:1 {\ncell a counter\ncell b counter\ncell f flag\n" +
                          body + "\n}");
  EXPECT_TRUE(parsed) << parsed.error().text;
  return parsed->at(0);
}

ir::Machine machine_with(std::vector<int64_t> args, std::vector<int64_t> cells = {0, 0, 0},
                         int64_t result = 0) {
  ir::Machine machine;
  machine.args = std::move(args);
  machine.cells = std::move(cells);
  machine.result = result;
  return machine;
}

// A job whose meaning is that cell a, or b, becomes this.
Job job(const std::string& code, int64_t expected, const ir::Machine& machine,
        const std::string& point = "entry", char cell = 'a') {
  Inputs inputs;
  inputs.machine = machine;
  return {snippet(fmt::format("store {}, {}", cell, expected), point), snippet(code, point), {inputs}};
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
  if (op == "shl") return wrap(static_cast<Wide>(static_cast<uint64_t>(a)) << (b & 63));
  if (op == "shr") return wrap(Wide{a} >> (b & 63));
  if (op == "eq") return a == b;
  if (op == "ne") return a != b;
  if (op == "lt") return a < b;
  if (op == "le") return a <= b;
  if (op == "gt") return a > b;
  return a >= b;
}

constexpr int64_t kAllExtremes[] = {
    kMin, 0, -1, 100, INT32_MIN, int64_t{INT32_MAX} + 1, 1, 2, -3, 2047, -2048, 4095, 4096, INT32_MAX, kMax};
constexpr std::span kExtremes = std::span(kAllExtremes).first(kSanitized ? 4 : std::size(kAllExtremes));

TEST_P(Exec, ArithmeticAtTheExtremes) {
  for (const char* op : {"add", "sub", "mul", "div", "shl", "shr", "eq", "ne", "lt", "le", "gt", "ge"}) {
    std::vector<Job> jobs;
    for (int64_t a : kExtremes)
      for (int64_t b : kExtremes) {
        const ir::Machine machine = machine_with({b, 0, a});
        const int64_t result = expected(op, a, b);
        for (const std::string& operands : {std::string("%0, %1"), fmt::format("%0, {}", b),
                                            fmt::format("{}, %1", a), fmt::format("{}, {}", a, b)})
          jobs.push_back(job(fmt::format("%0 = arg 2\n%1 = arg 0\n%2 = {} {}\nstore a, %2", op, operands),
                             result, machine));
      }
    expect_right(jobs);
  }
}

// The same comparisons where a jump reads them and nothing else: a comparison and a branch.
TEST_P(Exec, ComparisonsThatDecideJumps) {
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    std::vector<Job> jobs;
    for (int64_t a : kExtremes)
      for (int64_t b : kExtremes)
        for (const std::string& operands : {std::string("%0, %1"), fmt::format("%0, {}", b),
                                            fmt::format("{}, %1", a), fmt::format("{}, {}", a, b)})
          jobs.push_back(
              job(fmt::format("%0 = arg 2\n%1 = arg 0\n%2 = {} {}\njump_zero %2, L0\nstore a, 1\nL0:", op,
                              operands),
                  expected(op, a, b), machine_with({b, 0, a})));
    expect_right(jobs);
  }
}

// $return is read behind a division, which destroys its register on x86_64; $arg[2] likewise.
TEST_P(Exec, InputsSurviveDivisions) {
  ir::Machine machine = machine_with({0, 0, 90}, {10, 0, 0}, 7);
  expect_right({job("%0 = load a\n%1 = div 1000, %0\n%2 = result\n%2 = add %1, %2\nstore b, %2", 107, machine,
                    "return", 'b'),
                job("%0 = arg 2\n%1 = div %0, 3\n%2 = arg 2\n%3 = div %2, %1\nstore b, %3", 3, machine,
                    "entry", 'b')});
}

// Timers at every depth, started and stopped once and twice; the clock is the routine's.
TEST_P(Exec, Timers) {
  std::vector<Job> jobs;
  for (const char* kind :
       {"wall_timer", "process_timer", "event_timer MINOR_FAULTS", "event_timer BLOCKS_OUT"})
    for (const char* code : {"start_timer t", "stop_timer t", "start_timer t\nstop_timer t",
                             "start_timer t\nstart_timer t\nstop_timer t", "stop_timer t\nstart_timer t"})
      for (int64_t depth : {0, 1, 2, 3}) {
        auto parsed = ir::parse(fmt::format(
            "snippet s at entry temps 1 labels 1 from 0:1:1 {{\ncell g counter\ncell t {}\n{}\n}}", kind,
            code));
        ASSERT_TRUE(parsed) << parsed.error().text;
        Inputs inputs;
        inputs.machine.cells = {0, depth > 0 ? -1 : 5};
        inputs.machine.seconds = {0, depth};
        jobs.push_back({parsed->at(0), parsed->at(0), {inputs}});
      }
  expect_right(jobs);
}

// The routine gets the value and the address of the cell.
TEST_P(Exec, Updates) {
  std::vector<Job> jobs;
  for (const char* code : {"update h, 5", "%0 = arg 0\nupdate h, %0\nadd_cell g, %0",
                           "%0 = arg 1\n%1 = mul %0, %0\nupdate h, %1\nupdate h, %0\nstore g, %1"}) {
    auto parsed = ir::parse(fmt::format(
        "snippet s at entry temps 2 labels 0 from 0:1:1 {{\ncell g counter\ncell h histogram\n{}\n}}", code));
    ASSERT_TRUE(parsed) << parsed.error().text;
    Inputs inputs;
    inputs.machine.args = {-7, int64_t{1} << 33};
    inputs.machine.cells = {1, 100};
    jobs.push_back({parsed->at(0), parsed->at(0), {inputs}});
  }
  expect_right(jobs);
}

// The guard lets through what runs behind it when the flag, here cell a, is not 0.
TEST_P(Exec, Guard) {
  std::vector<Job> jobs;
  for (int64_t up : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 32, kMin}) {
    Job one = job("store b, 1", up != 0, machine_with({}, {up, 0, 0}), "entry", 'b');
    one.guarded = true;
    jobs.push_back(one);
  }
  expect_right(jobs);
}

// A defect is found, and made small: here one of the test's making, a subtraction that means an addition.
TEST_P(Exec, FindsAndShrinksDefects) {
  Random random(1);
  auto mean = [](ir::Snippet s) {
    for (ir::Inst& inst : s.insts)
      if (inst.op == ir::Op::xor_) inst.op = ir::Op::or_;
    return s;
  };
  auto fails = [&](const ir::Snippet& s) {
    auto verdicts = run(host(), {{mean(s), s, {random_inputs(random, s)}}});
    return !verdicts || !(*verdicts)[0].wrong.empty();
  };
  ir::Snippet big = snippet(
      "%0 = arg 0\n%1 = load a\n%2 = add %0, %1\n%3 = mul %2, 3\n%4 = xor 1, 1\nadd_cell b, %3\nadd_cell a, "
      "%4\n"
      "store f, %2");
  ASSERT_TRUE(fails(big));
  EXPECT_LE(shrink(big, fails).insts.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Targets, Exec, testing::Values(&x86_64_host(), &aarch64_host(), &riscv64_host()),
                         [](const auto& info) { return std::string(info.param->name); });

// What the routines are is in the manifest.
TEST(Stencils, RoutinesAreDeclared) {
  auto snippets = ir::parse(R"ir(snippet s_entry at entry temps 12 labels 1 from 0:1:1 {
  cell cpu process_timer
  cell faults event_timer MINOR_FAULTS
  cell out call
  cell sizes histogram
  cell calls entries
  function "work"
  start_timer cpu
  start_timer faults
  %10 = now
  %11 = error
  %6 = read_address 4294967296
  %8 = call out, 0
  update sizes, %6
  enter calls, %6
  %9 = kept calls
  %7 = elapsed calls
}
)ir");
  ASSERT_TRUE(snippets) << snippets.error().text;
  for (const backend::Target* target : backend::all_targets()) {
    auto stencil = backend::make_stencil(snippets->at(0), *target);
    ASSERT_TRUE(stencil) << stencil.error().text;
    using enum format::Routine;
    EXPECT_EQ(stencil->info.routines,
              (std::vector{cpu, event, now, error, read, call, observe, enter, kept, elapsed}));
  }
}

}  // namespace
}  // namespace mdl::exec
