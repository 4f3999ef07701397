// The files installed beside a program: share/mdl/ next to the bin/ that it is in. A build folder has the
// same shape.
#pragma once

#include <string>

namespace mdl {

// share/mdl/NAME; "" when the program's own place is not known. It need not exist.
std::string installed(const std::string& name);

// A program in the same bin/; "" when the program's own place is not known. It need not exist.
std::string beside(const std::string& program);

}  // namespace mdl
