// Files that injectors of one user lock (flock(2)), by name, in a folder of that user.
//
// Nobody else may be able to open, replace or make a file in it. /run and /run/user/UID are such that nobody else can
// make our folder there. In /tmp, the last resort (a container without /run, a user that has not logged in), somebody
// may have made it first: a folder that is a link, belongs to another or is open to others is not used.
#pragma once

#include <string_view>

namespace mdl::kernel {

// Makes the file where it is not there, locks it without waiting (`operation`: LOCK_SH or LOCK_EX), and writes the text
// into it. A descriptor, which holds the lock; or -1, with EWOULDBLOCK when somebody else holds it, another errno
// when there is no folder for it.
int lock_file(std::string_view name, int operation, std::string_view text);
// To read it; -1 where it is not there.
int look_at_lock_file(std::string_view name);
// Removes it if nobody holds its lock. Others that have opened it see that in lock_file().
void remove_lock_file(std::string_view name);

}  // namespace mdl::kernel
