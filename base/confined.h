// Work on bytes that nobody vouches for, by code that is not ours to mend, in a process of its own: where it
// crashes or does not end, there is an error instead of an answer.
//
// The process is a fork of this one with what it has in memory, none of its files, no signal handlers, and
// limits on processor time and memory. It ends with this object, and with this process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace mdl {

class Confined {
 public:
  static constexpr uint64_t kMostMemory = uint64_t{8} << 30;
  // Runs over there, for one question after the other, and may keep state between them.
  using Answer = std::function<std::string(const std::string& question)>;

  // `seconds`: of processor time, for all its answers. `memory`: bytes beyond what this process has.
  static Result<Confined> start(Answer answer, unsigned seconds, uint64_t memory = kMostMemory);
  Confined(Confined&&) noexcept;
  Confined& operator=(Confined&&) noexcept;
  ~Confined();

  // Any bytes. After an error there are only errors.
  Result<std::string> ask(const std::string& question);

  // The same for who does something else meanwhile: one question at a time, an answer for each.
  Result<void> send(const std::string& question);
  bool has_answer() const;  // receive() does not wait long
  Result<std::string> receive();

 private:
  Confined(pid_t pid, int connection) : pid_(pid), connection_(connection) {}
  Error ended();

  pid_t pid_ = -1;
  int connection_ = -1;
  std::string why_;  // there will be no more answers
};

}  // namespace mdl
