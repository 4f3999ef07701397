// The regular expressions of a plan (`exclude regex`). A plan is an enemy's, so they are of a kind that matches
// in time linear to the text, by RE2: no backreferences, no looking ahead or behind. mdlc checks them with the
// same code as mdl-inject.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace re2 {
class RE2;
}

namespace mdl::format {

class Pattern {
 public:
  // The error says what is wrong and at which character of the pattern, where that is known.
  static Result<Pattern> make(const std::string& text, bool no_case);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  bool is_in(const std::string& text) const;

 private:
  explicit Pattern(std::unique_ptr<re2::RE2> compiled);
  std::unique_ptr<re2::RE2> compiled_;
};

}  // namespace mdl::format
