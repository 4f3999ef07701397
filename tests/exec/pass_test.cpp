// Passes keep the meaning of every operation: random snippets that reach outside of the machine are
// interpreted before and after, with random selections of passes. The world outside is hostile to what a pass
// might assume: a call changes cells, variables and memory, and memory may be a cell's.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/ir/op_info.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/passes.h"
#include "random_snippet.h"

namespace mdl::exec {
namespace {

constexpr int64_t kCellAddress = 1000;  // of cell a; the others follow it

class Outside : public ir::World {
 public:
  explicit Outside(ir::Machine& machine) : machine_(machine) {}

  int64_t clock(const format::Cell&) override { return now_ += 7; }
  int64_t ask(ir::Op) override { return now_ += 7; }
  int64_t memory(int64_t address) override {
    if (address >= kCellAddress && address < kCellAddress + 3)
      return machine_.cells[static_cast<size_t>(address - kCellAddress)];
    return wrap(address, 31 + calls_);
  }
  int64_t variable(const std::string&) override { return 5 + calls_; }
  int64_t call(const std::string&, const std::array<int64_t, 6>& arguments) override {
    seen_ += fmt::format("call {} with cells {} at {}\n", fmt::join(arguments, ","),
                         fmt::join(machine_.cells, ","), now_);
    calls_++;
    int64_t& cell = machine_.cells[static_cast<size_t>(calls_ % 3)];
    cell = wrap(cell, 3);
    return wrap(arguments[0], 1 - calls_);
  }
  int64_t address(const format::Cell& of) override { return kCellAddress + (of.name[0] - 'a'); }

  const std::string& seen() const { return seen_; }

 private:
  static int64_t wrap(int64_t a, int64_t b) { return *ir::evaluate(ir::Op::mul, a ^ (b & 1), b); }

  ir::Machine& machine_;
  std::string seen_;
  int64_t now_ = int64_t{1} << 56;
  int64_t calls_ = 0;
};

// Everything that a run leaves behind.
std::string outcome(const ir::Snippet& snippet, ir::Machine machine) {
  machine.constants = bound(snippet.constants, machine.constants);
  Outside outside(machine);
  machine.world = &outside;
  ir::interpret(snippet, machine);
  machine.seconds.resize(snippet.cells.size());
  return fmt::format("{}cells {} and {} anomalies {}", outside.seen(), fmt::join(machine.cells, ","),
                     fmt::join(machine.seconds, ","), machine.anomalies);
}

// "" when the passes keep what the snippet means.
std::string differs(const ir::Snippet& snippet, const passes::Disabled& disabled,
                    const std::vector<ir::Machine>& machines) {
  ir::Snippet passed = snippet;
  if (auto ran = passes::run_passes(passed, disabled); !ran) return ran.error().text;
  if (auto verified = ir::verify(passed); !verified) return verified.error().text + "\n" + ir::print(passed);
  for (const ir::Machine& machine : machines) {
    std::string before = outcome(snippet, machine), after = outcome(passed, machine);
    if (before != after) return fmt::format("before: {}\nafter:  {}\n{}", before, after, ir::print(passed));
  }
  return "";
}

ir::Machine machine_of_world(Random& random) {
  ir::Machine machine = random_machine(random);
  machine.cells.resize(kWorldCells);
  machine.thread = 4711;
  if (random() % 8 == 0) machine.cells[7] = 1;  // in a call already
  machine.seconds.assign(kWorldCells, 0);
  for (size_t timer : {3, 4, 5}) machine.seconds[timer] = static_cast<int64_t>(random() % 2);
  if (random() % 4 == 0) machine.args[0] = kCellAddress + static_cast<int64_t>(random() % 3);
  return machine;
}

TEST(Passes, KeepWhatSnippetsMean) {
#ifdef MDL_SANITIZED  // sanitizers look for faults of the passes themselves
  constexpr size_t kSnippets = 1500;
#else
  constexpr size_t kSnippets = 6000;
#endif
  const char* wanted = std::getenv("MDL_SEED");
  const uint64_t seed = wanted ? std::strtoull(wanted, nullptr, 0) : 20262;
  fmt::print("seed {} (set MDL_SEED for another)\n", seed);
  Random random(seed);
  size_t smaller = 0;
  for (size_t i = 0; i < kSnippets; i++) {
    ir::Snippet snippet = random_snippet(random, i % 3 ? Reach::world : Reach::machine);
    std::vector<ir::Machine> machines;
    for (int n = 0; n < 4; n++) machines.push_back(machine_of_world(random));
    passes::Disabled disabled;
    for (const passes::Pass& pass : passes::all_passes())
      if (i % 4 == 3 && random() % 2) disabled.emplace(pass.name);
    if (!differs(snippet, disabled, machines).empty()) {
      ir::Snippet small =
          shrink(snippet, [&](const ir::Snippet& s) { return !differs(s, disabled, machines).empty(); });
      FAIL() << fmt::format("without {}:\n{}{}", fmt::join(disabled, ","), ir::print(small),
                            differs(small, disabled, machines));
    }
    ir::Snippet passed = snippet;
    ASSERT_TRUE(passes::run_passes(passed, disabled));
    smaller += passed.insts.size() < snippet.insts.size();
  }
  EXPECT_GT(smaller, kSnippets / 2);
}

}  // namespace
}  // namespace mdl::exec
