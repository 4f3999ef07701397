// Where the result goes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace mdl::mdlc {

// Writes a file whole or not at all: what was there before stays until all bytes are on
// their way, and stays for good when something fails. "-" is standard output; what is no
// regular file (a device, a pipe) is written to directly.
Result<void> write_output(const std::string& path, std::string_view bytes);

}  // namespace mdl::mdlc
