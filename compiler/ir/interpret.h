// The meaning of the IR: what generated code must do, and is tested against.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/ir.h"

namespace mdl::ir {

// What a snippet sees and changes: the values of one thread at one point.
struct Machine {
  std::vector<int64_t> args;       // $arg[n]; one that is not here is 0
  int64_t result = 0;              // $return
  std::vector<int64_t> constants;  // $constraint[n]; one that is not here is 0
  std::vector<int64_t> cells;      // by the index of Snippet::cells
  int64_t anomalies = 0;
};

// Runs a verified snippet. `machine.cells` has an element for each of the snippet's cells.
void interpret(const Snippet& snippet, Machine& machine);

}  // namespace mdl::ir
