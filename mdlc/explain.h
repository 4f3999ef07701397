// The meaning of a diagnostic's code, at more length than its message (mdlc --explain CODE).
#pragma once

#include <string>

namespace mdl::mdlc {

// Prints the explanation and answers mdlc's exit status: 2 for a code that does not exist.
int explain(const std::string& code);

}  // namespace mdl::mdlc
