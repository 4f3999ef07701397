// Functions of several names that have nothing to do with each other. The linker (identical code folding) or the compiler
// (GCC's -fipa-icf) has made one of functions that have the same code, or a library has two names for one. One address
// is one function here, so that a count of one of them is a count of all, which somebody who reads the source does not
// expect.
#pragma once

#include <string>
#include <vector>

#include "runtime/focus/request.h"

namespace mdl::focus {

struct Folded {
  std::string name;                 // demangled, without parameters,
  std::vector<std::string> others;  // and so are these
};

// Of the functions that metrics with few lines are about, in the binding's order.
std::vector<Folded> folded_functions(const Binding& binding);

// Whether two names may be one function's in the source: `open` and `__open64`, the constructors that a class has for
// one.
bool are_alike(std::string_view one, std::string_view other);

}  // namespace mdl::focus
