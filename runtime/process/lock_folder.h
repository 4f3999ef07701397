// The folder of the files that injectors of one user lock.
//
// Nobody else may be able to open, replace or make a file in it. /run and /run/user/UID are such that
// nobody else can make our folder there. In /tmp, the last resort (a container without /run, a user that
// has not logged in), somebody may have made it first: a folder that is a link, belongs to another or is open
// to others is not used.
#pragma once

namespace mdl::process {

// A descriptor of it, or -1 where there is none.
int open_lock_folder();

}  // namespace mdl::process
