// What may be meant by a name that a process does not have, and why it is not there. Each begins with "; ", or is "".
#pragma once

#include <string>
#include <vector>

#include "runtime/focus/names.h"

namespace mdl::focus {

// Near names; those that it is the beginning of, as `libc` is of libc.so.6.
std::string hint_for_object(const Names& names, const std::string& wanted);

// Where it was inlined, else near names, else why the program has no such names: it is stripped, or interpreted.
std::string hint_for_function(const Names& names, const std::vector<Module>& modules,
                              const std::string& wanted);

// Whether what is missing, as a binding has it, is there and cannot be measured: the reason stands behind its name.
bool is_there(const Names& names, const std::string& missing);

// Of a function in any object, or of OBJECT/FUNCTION.
std::string hint_for_missing(const Names& names, const std::string& missing);

}  // namespace mdl::focus
