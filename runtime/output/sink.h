// Where output goes. Text that is written at once reaches the file in one piece, so that the reader of a pipe
// sees a sample at once and whole.
// SIGPIPE must be ignored by the program; a reader that went away is then an error here.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace mdl::output {

// A file descriptor, written whole or not at all as far as it tells.
class Sink {
 public:
  // Truncates the file; "" is standard output.
  static Result<Sink> open(const std::string& path);
  Sink(int fd, std::string name, bool owned) : fd_(fd), name_(std::move(name)), owned_(owned) {}
  Sink(Sink&& other) noexcept;
  Sink& operator=(Sink&&) = delete;
  ~Sink();

  bool is_terminal() const;
  Result<void> write(std::string_view text);
  // True for a file: its contents can be replaced as a whole, so that a reader sees the old or the new ones.
  bool can_replace() const;
  Result<void> replace(std::string_view text);
  Result<void> close();  // reports what a delayed write found; a second call does nothing

 private:
  int fd_;
  std::string name_;
  bool owned_;
};

}  // namespace mdl::output
