// What on a command line does not go together, and values that are out of range.
#pragma once

#include <optional>
#include <string>

#include "mdl-inject/command_line.h"

namespace mdl::inject {

// Of a parsed line whose words are assigned: what is wrong with it, in a sentence; nothing where nothing is.
std::optional<std::string> wrong_combination(const CommandLine& line);

}  // namespace mdl::inject
