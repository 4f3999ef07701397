// What lies around a snippet in the tests: answers that the interpreter and the routines of the hosts
// (tests/exec/host.h) give alike.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/interpret.h"
#include "tests/exec/host.h"

namespace mdl::exec {

// A variable of the application: some of the bits of a word of the block.
struct Variable {
  int64_t word = 0;
  uint8_t left = 0, right = 0;
};

// Values for a run of a snippet.
struct Inputs {
  ir::Machine machine;  // its constants are those of the request: selected[n]
  int64_t clock = int64_t{1} << 56, step = 1000;
  std::vector<Variable> variables;  // by index into Snippet::symbols
  std::vector<int64_t> functions;   // likewise: addresses
};

// Words of the block.
inline constexpr size_t kClockWord = 0, kStepWord = 1, kThreadWord = 2, kAnomalyWord = 3, kVariableWord = 4;
inline constexpr size_t kVariables = 8, kFirstCell = 16, kCellDistance = 12;
inline size_t cell_word(size_t cell) {
  return kFirstCell + cell * kCellDistance;
}
// Of a histogram the routines here change the sum only.
inline size_t words_of(format::CellKind kind) {
  return std::min<size_t>(format::info(kind).size / 8, kCellDistance);
}
inline int64_t block_offset(size_t word) {
  return kBias + 8 * static_cast<int64_t>(word);
}

// Clocks count the routines' calls; the wall clock cannot be foretold and stands at 0.
class TestWorld : public ir::World {
 public:
  TestWorld(const ir::Snippet& snippet, const Inputs& inputs, int64_t block)
      : snippet_(snippet), inputs_(inputs), block_(block), clock_(inputs.clock) {}

  int64_t clock(const format::Cell& of) override;
  int64_t ask(ir::Op) override { return tick(); }
  int64_t memory(int64_t address) override { return ~address; }
  int64_t variable(const std::string& name) override;
  int64_t call(const std::string& function, const std::array<int64_t, 6>& arguments) override;
  int64_t address(const format::Cell& of) override;

  int64_t now() const { return clock_; }

 private:
  int64_t tick();
  size_t symbol(const std::string& name) const;

  const ir::Snippet& snippet_;
  const Inputs& inputs_;
  int64_t block_;  // the block register's value
  int64_t clock_;
};

}  // namespace mdl::exec
