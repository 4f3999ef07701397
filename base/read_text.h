// Reading a small file whole, /proc's above all: such a file can vanish, or fail to read,
// at any moment, and that is no exception.
#pragma once

#include <string>

namespace mdl {

// The file's content; what could be read when a read fails, "" when it cannot be opened.
std::string read_text(const std::string& path);

}  // namespace mdl
