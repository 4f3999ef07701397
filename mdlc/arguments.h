// The command line before its options are parsed: response files in their place, and
// options as the parser of options wants them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace mdl::mdlc {

// `@FILE` stands for the words in FILE, which are separated by white space; '…' and "…"
// keep it, a backslash keeps the next character (outside '…'). A response file may name
// others. After `--`, nothing is an option or a response file.
Result<std::vector<std::string>> arguments(int argc, const char* const* argv);

}  // namespace mdl::mdlc
