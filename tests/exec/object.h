// The functions of an object file that backend::assemble made, with their relocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace mdl::exec {

struct Relocation {
  size_t offset = 0;  // in the function
  uint32_t type = 0;
  std::string symbol;
  int64_t addend = 0;
};
struct Function {
  std::vector<std::byte> code;
  std::vector<Relocation> relocations;
};

Result<std::map<std::string, Function>> read_functions(const std::vector<std::byte>& object);

}  // namespace mdl::exec
