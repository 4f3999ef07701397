// Result<T>: what a function returns when the environment can fail it (a file, a
// process, a byte stream from outside). The user's mistakes in source text are not
// results; they are diagnostics (compiler/support/diagnostics.h).
//
// An Error carries one finished sentence for the user (what, where, why, and what to
// do about it) and the exit status of the command-line contract that it leads to.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace mdl {

// The exit statuses of mdl-inject (docs/architecture.md); mdlc uses done, failed and usage.
enum class Status {
  done = 0,
  failed = 1,         // the request failed and nothing was changed
  usage = 2,          // wrong command line
  target_killed = 3,  // the target was killed by a signal
  plan_rejected = 4,  // the plan is damaged, foreign or not admissible
  left_inert = 5,     // something had to be left, inert, in the target
};

struct Error {
  std::string text;
  Status status = Status::failed;
  bool is_passing = false;  // something changed meanwhile, and nothing was done: the same may succeed at once
  bool is_quiet =
      false;  // whom it concerns knows: the reader of standard output has gone away, as `head` does
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// A result without a value. `return {};` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  explicit operator bool() const { return ok_; }
  Error& error() { return error_; }
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace mdl
