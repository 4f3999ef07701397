// Runs many stencils at once on a host's machine: one object, one blob of filled code, registers and
// blocks, one process (harness.c); everything is compared afterwards.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "compiler/ir/ir.h"
#include "tests/exec/host.h"
#include "tests/exec/world.h"

namespace mdl::exec {

struct Job {
  ir::Snippet meaning;  // what the interpreter runs
  ir::Snippet code;     // what is compiled: the same, or what passes made of it
  std::vector<Inputs> inputs;
  bool guarded = false;  // the guard stands in front and tests cell 0
  bool peepholes = true;  // whether the backend's own pass runs
};

struct Verdict {
  std::string refused;  // why the backend has no stencil for it
  std::string wrong;    // "" when every run did what it should and nothing else
  size_t runs = 0;
};

// One verdict for each job. An error when there is no blob to be judged, or when its process dies.
Result<std::vector<Verdict>> run(const Host& host, const std::vector<Job>& jobs);

}  // namespace mdl::exec
