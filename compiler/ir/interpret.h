// The meaning of the IR: what generated code must do, and is tested against.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compiler/ir/ir.h"

namespace mdl::ir {

// The surroundings of a snippet, as far as it can see them. Answers of a world that is not there are 0.
struct World {
  virtual ~World() = default;
  virtual int64_t clock(const format::Cell& of) = 0;  // of a timer or event counter; never falls
  virtual int64_t ask(Op of) = 0;                     // a clock that is no cell's, errno
  virtual int64_t memory(int64_t address) = 0;        // the 8 bytes there
  virtual int64_t variable(const std::string& name) = 0;
  virtual int64_t call(const std::string& function, const std::array<int64_t, 6>& arguments) = 0;
  virtual int64_t address(const format::Cell& of) = 0;
};

// The state that a snippet sees and changes: the values of one thread at one point.
struct Machine {
  std::vector<int64_t> args;       // $arg[n]; one that is not here is 0
  int64_t result = 0;              // $return
  std::vector<int64_t> constants;  // as Snippet::constants; one that is not here is 0
  std::vector<int64_t> cells;      // by the index of Snippet::cells: the first word (format/kinds.h)
  int64_t anomalies = 0;
  std::vector<int64_t> seconds =
      {};              // the cells' second words, of those that have one; made as long as needed
  int64_t thread = 0;  // $thread
  World* world = nullptr;
};

// Runs a verified snippet. `machine.cells` has an element for each of the snippet's cells.
void interpret(const Snippet& snippet, Machine& machine);

}  // namespace mdl::ir
