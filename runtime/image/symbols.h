// Symbols of the application that a plan's code refers to by name: variables to be read, functions to
// be called. Each must be one thing: a name that two objects define is an error that names them.
#pragma once

#include <string>

#include "base/result.h"
#include "runtime/image/image.h"

namespace mdl::image {

struct Variable {
  uint64_t address = 0;
  uint64_t size = 0;  // 1, 2, 4 or 8; it lies in 8 aligned bytes
};

// From the symbol tables of the program, then of the libraries: a variable of a library that the program uses
// directly lies in the program. `name` may be OBJECT/NAME. Refused: what is not an integer's size, what
// crosses 8 aligned bytes, thread-local variables, what cannot be read.
Result<Variable> find_variable(const Image& image, const std::string& name);

// By exact linkage name or demangled. Refused: what has a calling convention of its own and what is chosen
// when the process starts (IFUNC).
Result<uint64_t> find_callee(const Image& image, const std::string& name);

}  // namespace mdl::image
