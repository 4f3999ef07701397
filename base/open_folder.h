// A folder that somebody else may have put a link in the place of.
#pragma once

#include <string>

namespace mdl {

// A descriptor with O_PATH of a folder whose path has no symbolic link in it, or -1 and errno. Before Linux 5.6 only
// its last part is looked at.
int open_folder(const std::string& path);

}  // namespace mdl
