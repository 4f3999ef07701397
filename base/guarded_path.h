// Files that only root and the user can change: policies, trusted keys, installed plans. A check of the file's
// own mode is not enough, because whoever can write to a folder above it can put another one in its place.
#pragma once

#include <string>

#include "base/result.h"

namespace mdl {

// The real path, without symbolic links, if the file and each folder above it belong to root or to the
// effective user (to root alone, where the program has privileges that its user has not), and nobody else can
// write to them. A folder with the sticky bit, such as /tmp, may be
// written by others. The error names the first that is not so, and the command that mends it. Nobody else
// can make the path that is returned mean another file; it is the one to open.
Result<std::string> guarded_path(const std::string& path);

// The same where root alone may be the owner.
Result<std::string> path_of_root(const std::string& path);

}  // namespace mdl
