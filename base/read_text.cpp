#include "base/read_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace mdl {

std::string read_text(const std::string& path) {
  std::string out;
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return out;
  char buffer[4096];
  for (;;) {
    ssize_t got = read(file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    out.append(buffer, static_cast<size_t>(got));
  }
  close(file);
  return out;
}

}  // namespace mdl
