// Reading a file, or what comes through a pipe or socket, whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace mdl {

// The content of a small file, /proc's above all: such a file can vanish, or fail to read, at any moment, and
// that is no exception. When a read fails, the part before it; "" when the file cannot be opened.
std::string read_text(const std::string& path);
// Appends it to `out`; 0, or the errno of what failed.
int read_text(const std::string& path, std::string& out);

// The same from an open file, which it closes. Where it is longer than `most` bytes, the first `most` and EFBIG.
int read_open(int file, std::string& out, size_t most = SIZE_MAX / 2);

// The content of a user's file. Where it is longer than `most` bytes, its first `most` + 1, so that the
// caller sees it. The error is the system's word alone ("Permission denied").
Result<std::string> read_file(const std::string& path, size_t most);

// `size` bytes from an open file, pipe or socket; false where it ends or fails before.
bool read_all(int from, void* into, size_t size);

}  // namespace mdl
