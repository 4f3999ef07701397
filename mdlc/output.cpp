#include "mdlc/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/put_file.h"
#include "base/say.h"

namespace mdl::mdlc {
namespace {

// The mode that open() would have given, but that nobody else may write: whoever can put code into a plan can
// have it put into processes.
mode_t mode_of_new_file() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0644 & ~mask;
}

Result<void> write_directly(int file, const std::string& name, std::string_view bytes) {
  if (const int number = write_all(file, for_file(file, std::string(bytes))))
    return cannot_write(name, number);
  return {};
}

Result<void> close_file(int file, const std::string& path, Result<void> written) {
  if (close(file) != 0 && written) return cannot_write(path, errno);
  return written;
}

}  // namespace

Result<void> write_output(const std::string& path, std::string_view bytes) {
  if (path == "-") return write_directly(STDOUT_FILENO, "standard output", bytes);
  auto place = place_of(path);
  if (!place) return place.error();
  if (place->name.empty()) {
    const int file = open(place->as_it_is.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0) return cannot_write(path, errno);
    return close_file(file, path, write_directly(file, path, bytes));
  }
  auto file = put_file(*place, bytes, mode_of_new_file(), path);
  if (!file) return file.error();
  return close_file(*file, path, {});
}

}  // namespace mdl::mdlc
