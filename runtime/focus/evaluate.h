// Placement trees, evaluated against a process: which stencil goes to which point.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/focus/names.h"
#include "runtime/focus/resource.h"

namespace mdl::focus {

// One `append|prepend POINT (* ... *)` at one point.
struct Insertion {
  Procedure at;
  format::PointKind kind = format::PointKind::entry;  // every: at all points, `at` is none
  uint64_t place = 0;                                 // as in BoundPoint
  uint32_t stencil = 0;                               // index into Plan::stencils
  format::Order order = format::Order::append;
  bool constrained = false;
  std::vector<int64_t> constants;  // of the stencil; $cost is 0 until all code is known (every_point.h)
  std::string obstacle = {};       // why it cannot be there, for all its place: a parameter is not known
};

struct Evaluation {
  std::vector<Insertion> insertions;  // in the order of the statements
  // Names that were looked for and are not there, or must not be instrumented, each once.
  std::vector<std::string> missing;
  bool guarded_out = false;  // a condition kept code out
  // Nothing is inserted because conditions say so, and not because nothing was found.
  bool idle() const { return insertions.empty() && guarded_out; }
};

struct Scope {
  const plan::Plan& plan;
  const Names& names;
  std::string flavor;                     // lists of other flavors are empty
  const Resource* selected = nullptr;     // what $constraint means; null where it means nothing
  std::string owner;                      // "metric `calls`": for errors
  image::Codes* codes = nullptr;          // null where no code is known
  std::span<const uint64_t> starts = {};  // as in BindOptions
  std::span<const Resource> only = {};    // code stands in no function but these; empty: it may in all
  size_t* steps = nullptr;                // what all evaluations have taken, which has a limit of its own
};

// Runs the statements. `foreach` over lists of procedures visits each function once, however
// many names of the list it has. Constants of code are integers; a function stands for its address, a text
// that is a number (a tag, a thread id) for that number. Errors name the owner and the line in its source.
Result<Evaluation> evaluate(const Scope& scope, const std::vector<format::Placement>& statements);

}  // namespace mdl::focus
