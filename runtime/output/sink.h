// Where output goes. Text that is written at once reaches the file in one piece, so that the reader of a pipe
// sees a sample at once and whole.
// SIGPIPE must be ignored by the program; a reader that went away is then an error here.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/place.h"
#include "base/result.h"

namespace mdl::output {

// A file descriptor, written whole or not at all as far as it tells.
class Sink {
 public:
  // "" is standard output. A file is there with the first text, beside which the old one stays until then: it is
  // written under another name and renamed, for its owner only where it is new. What is no regular file is opened as
  // it is.
  static Result<Sink> open(const std::string& path);
  Sink(int fd, std::string name, bool owned);
  Sink(Sink&& other) noexcept;
  Sink& operator=(Sink&&) = delete;
  ~Sink();

  bool is_terminal() const { return is_terminal_; }
  // What a line without its end is there: a terminal does not get what it obeys, all else gets the format's bytes.
  std::string shown(std::string line) const;
  Result<void> write(std::string_view text);  // to a new file, the first time
  // True for a file: its contents can be replaced as a whole, so that a reader sees the old or the new ones.
  bool can_replace() const;
  Result<void> replace(std::string_view text);
  // A new file of this text in the place; its descriptor. From here on somebody else makes it, who may.
  Result<int> publish(std::string_view text);
  using Publish = std::function<Result<int>(std::string_view)>;
  void publish_through(Publish other) { other_ = std::move(other); }
  // Called again and again, every few milliseconds, while write() waits for a reader.
  void call_meanwhile(std::function<void()> other) { meanwhile_ = std::move(other); }
  Result<void> close();  // reports what a delayed write found; a second call does nothing

 private:
  Error failed(int number) const;
  Place place_;           // of a file that can be replaced; its name is "" where it is none
  bool is_begun_ = true;  // false: nothing has been written to it
  int fd_;
  std::string name_;
  bool owned_;
  bool is_terminal_;
  Publish other_;
  std::function<void()> meanwhile_ = [] {};
};

}  // namespace mdl::output
