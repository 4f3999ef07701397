#include "runtime/session/commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/open_folder.h"
#include "base/place.h"

namespace mdl::inject {

constexpr size_t kLongestLine = 1 << 16;

Result<RequestChange> parse_command(const std::string& line) {
  std::istringstream words(line);
  std::string verb, request, more;
  words >> verb >> request >> more;
  if ((verb != "add" && verb != "remove") || request.empty() || !more.empty())
    return Error{"a command is `add METRIC[@FOCUS]` or `remove METRIC[@FOCUS]`"};
  RequestChange out;
  (verb == "add" ? out.add : out.remove).push_back(std::move(request));
  return out;
}

// A FIFO is opened for writing, too: so it never comes to its end when a writer goes.
Result<Commands> Commands::open(const std::string& path) {
  auto place = place_of(path);
  if (!place) return place.error();
  constexpr int kHow = O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  int file = -1, number = 0;
  struct stat about {};
  if (place->name.empty()) {
    if (stat(place->as_it_is.c_str(), &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISREG(about.st_mode)))
      file = ::open(place->as_it_is.c_str(), (S_ISFIFO(about.st_mode) ? O_RDWR : O_RDONLY) | kHow);
    else
      return Error{fmt::format("cannot read commands from {}: it is neither a file nor a FIFO", path)};
    number = errno;
  } else if (const int folder = open_folder(place->folder); folder >= 0) {
    file = openat(folder, place->name.c_str(), O_RDONLY | O_NOFOLLOW | kHow);
    number = errno;
    close(folder);
  } else {
    number = errno;
  }
  if (file < 0) return Error{fmt::format("cannot read commands from {}: {}", path, std::strerror(number))};
  Commands out(file);
  // Another one may have come to its place meanwhile.
  if (fstat(file, &about) == 0 &&
      (S_ISREG(about.st_mode) || (S_ISFIFO(about.st_mode) && place->name.empty())))
    return out;
  return Error{fmt::format("cannot read commands from {}: it is neither a file nor a FIFO", path)};
}

Commands::~Commands() {
  if (file_ >= 0) close(file_);
}

Commands::Commands(Commands&& other) noexcept
    : file_(std::exchange(other.file_, -1)), rest_(std::move(other.rest_)), too_long_(other.too_long_) {}

std::vector<std::string> Commands::read() {
  char bytes[4096];
  std::vector<std::string> out;
  for (ssize_t got; out.empty() && (got = ::read(file_, bytes, sizeof bytes)) > 0;)
    for (const char c : std::string_view(bytes, static_cast<size_t>(got))) {
      if (c != '\n') {
        if (rest_.size() == kLongestLine) rest_.clear(), too_long_ = true;
        rest_ += c;
        continue;
      }
      if (too_long_) rest_ = "(a line of more than 64 KB)";
      too_long_ = false;
      const size_t first = rest_.find_first_not_of(" \t\r");
      if (first != std::string::npos && rest_[first] != '#') out.push_back(rest_);
      rest_.clear();
    }
  return out;
}

}  // namespace mdl::inject
