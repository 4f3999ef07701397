// Tokens to lines, one style for all.
#pragma once

#include <string>
#include <vector>

#include "compiler/reformat/layout.h"

namespace mdl {

// Precondition: the items of a source without syntax errors.
std::string print(const std::vector<Item>& items);

}  // namespace mdl
