// Where the files of the command line are.
//
// A file is looked for as it is named, then in the -I directories in their order, then, if it
// is named without a folder, among the standard metrics. Those are found from the program's
// own place, PREFIX/bin/mdlc and PREFIX/share/mdl/stdlib-metrics, so that an installation can
// be moved; a build tree has the same shape.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace mdl::mdlc {

std::string standard_library();  // the folder; "" when the program's own place is not known

// The path of an existing file, or an error that lists where it was looked for.
Result<std::string> find_file(const std::string& name, const std::vector<std::string>& directories);

}  // namespace mdl::mdlc
