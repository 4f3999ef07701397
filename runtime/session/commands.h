// Changes of a session's requests, as lines of a file or a FIFO that is read while the session runs:
//
//   add METRIC[@FOCUS]
//   remove METRIC[@FOCUS]
//
// A file may grow: what is added to it is read, too. A line counts when its end is there. Empty lines and those
// that begin with # say nothing.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace mdl::inject {

struct RequestChange {
  std::vector<std::string> add, remove;  // METRIC[@FOCUS]
};

Result<RequestChange> parse_command(const std::string& line);

class Commands {
 public:
  static Result<Commands> open(const std::string& path);
  ~Commands();
  Commands(Commands&& other) noexcept;
  Commands& operator=(Commands&&) = delete;

  // The lines that have come since the last call. Never waits.
  std::vector<std::string> read();

 private:
  explicit Commands(int file) : file_(file) {}
  int file_;
  std::string rest_;       // of a line whose end has not come
  bool too_long_ = false;  // the beginning of it was thrown away
};

}  // namespace mdl::inject
