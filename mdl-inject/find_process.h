// -p: a process by its name.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace mdl::inject {

// The one process that is called so: by its program's file, by the first word of its command line, or as it calls
// itself. Errors: none, with the near names; several, with a list to choose from.
Result<pid_t> find_process(const std::string& name);

}  // namespace mdl::inject
