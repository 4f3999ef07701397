// Files that a user asks for (-o), written as a whole: beside the old one, under another name, and renamed. So a reader
// sees the old content or the new one, and the old one stays where something fails.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/place.h"
#include "base/result.h"

namespace mdl {

// All of it; 0, or errno.
int write_all(int file, std::string_view text);

// A file of this text in a place; its descriptor. An old one of the user's or of root's hands on its mode, which is else
// `mode`. No link is followed. `path`: what the place is called in errors.
Result<int> put_file(const Place& place, std::string_view text, mode_t mode, const std::string& path);

// "cannot write PATH: ...", with advice where there is some.
Error cannot_write(const std::string& path, int number);

}  // namespace mdl
