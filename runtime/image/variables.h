// The variables of a process by name, as its symbol tables have them.
#pragma once

#include <string>
#include <vector>

#include "runtime/image/image.h"

namespace mdl::image {

struct NamedVariable {
  Range at;
  std::string name;  // linkage name
  const Object* object = nullptr;
};

// Those of all objects, in the order of these; of each, those of .symtab before those of .dynsym, so one may come
// twice. Not those of threads, which have no address of their own.
std::vector<NamedVariable> variables_of(const Image& image);

}  // namespace mdl::image
