#include "base/read_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mdl {
namespace {

// Appends to `out` until it has `most` bytes; 0, or the errno of what failed.
int read_into(std::string& out, int file, size_t most) {
  if (file < 0) return errno;
  char buffer[16384];
  int failed = 0;
  while (out.size() < most) {
    const ssize_t got = read(file, buffer, std::min(sizeof buffer, most - out.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed = errno;
    if (got <= 0) break;
    out.append(buffer, static_cast<size_t>(got));
  }
  close(file);
  return failed;
}

int read_into(std::string& out, const std::string& path, size_t most) {
  return read_into(out, open(path.c_str(), O_RDONLY | O_CLOEXEC), most);
}

}  // namespace

std::string read_text(const std::string& path) {
  std::string out;
  read_text(path, out);
  return out;
}

int read_text(const std::string& path, std::string& out) {
  return read_into(out, path, out.max_size());
}

int read_open(int file, std::string& out, size_t most) {
  const int failed = read_into(out, file, most + 1);
  if (failed != 0 || out.size() <= most) return failed;
  out.resize(most);
  return EFBIG;
}

Result<std::string> read_file(const std::string& path, size_t most) {
  std::string out;
  if (const int failed = read_into(out, path, most + 1); failed != 0) return Error{std::strerror(failed)};
  return out;
}

bool read_all(int from, void* into, size_t size) {
  char* at = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = read(from, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace mdl
