// The output of a target's selector: lines of assembly, and labels of its own besides the snippet's.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/target.h"

namespace mdl::backend {

class Lines {
 public:
  explicit Lines(uint32_t first_label) : next_label_(first_label) {}

  template <typename... Args>
  void move(fmt::format_string<Args...> text, Args&&... args) {  // keeps the flags
    lines_.push_back({Line::Kind::plain, fmt::format(text, std::forward<Args>(args)...), 0, false});
  }
  template <typename... Args>
  void compute(fmt::format_string<Args...> text, Args&&... args) {  // sets the flags
    lines_.push_back({Line::Kind::plain, fmt::format(text, std::forward<Args>(args)...), 0, true});
  }
  void jump(std::string_view mnemonic, uint32_t label) {
    lines_.push_back({Line::Kind::jump, std::string(mnemonic), label, false});
  }
  void branch(std::string text, uint32_t label) {
    lines_.push_back({Line::Kind::branch, std::move(text), label, false});
  }
  void leave(std::string text) { lines_.push_back({Line::Kind::leave, std::move(text), 0, false}); }
  void place(uint32_t label) { lines_.push_back({Line::Kind::label, "", label, false}); }
  uint32_t new_label() { return next_label_++; }

  std::vector<Line> take() { return std::move(lines_); }

 private:
  std::vector<Line> lines_;
  uint32_t next_label_;
};

}  // namespace mdl::backend
