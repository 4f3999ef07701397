// The capabilities of a plan: what it can do besides counting. They are found in the decoded code and the
// manifest's tables; a plan that leaves one out in what it says of itself has it all the same.
//
// The line of reads: a stencil may load from its thread's block and from a variable of the program that the
// plan names, and from nothing else (the verifier). Every load from an address that is a value at run time, such
// as an argument that points to a string, goes through the routine `read`. So the plans with that routine are
// those that can read any memory of the process.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace mdl::plan {

struct Capabilities {
  std::vector<std::string> reads;      // metrics, constraints: their code reads memory at computed addresses
  std::vector<std::string> calls;      // functions of the application that are called
  std::vector<std::string> variables;  // of the application that are read
  std::vector<std::string> keys;       // constraints that list what they find at run time
  std::vector<std::string> commands;   // that --run starts
};
Capabilities capabilities(const Plan& plan);

// True when the stencil's code calls the routine.
bool uses(const Stencil& stencil, format::Routine routine);

}  // namespace mdl::plan
