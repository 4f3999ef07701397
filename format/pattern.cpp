#include "format/pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

namespace mdl::format {
namespace {

constexpr size_t kLongest = 1024;         // characters of a pattern
constexpr int64_t kMostMemory = 1 << 20;  // of a compiled one, which also bounds what repetitions unfold to

}  // namespace

Pattern::Pattern(std::unique_ptr<re2::RE2> compiled) : compiled_(std::move(compiled)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::make(const std::string& text, bool no_case) {
  if (text.size() > kLongest) return Error{fmt::format("it has more than {} characters", kLongest)};
  re2::RE2::Options options;
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // names are bytes
  options.set_log_errors(false);
  options.set_max_mem(kMostMemory);
  options.set_case_sensitive(!no_case);
  auto compiled = std::make_unique<re2::RE2>(text, options);
  if (compiled->ok()) return Pattern(std::move(compiled));
  std::string why = compiled->error();
  if (const size_t at = text.find(compiled->error_arg());
      !compiled->error_arg().empty() && at != std::string::npos)
    why += fmt::format(" at character {}", at + 1);
  return Error{why};
}

bool Pattern::is_in(const std::string& text) const {
  return re2::RE2::PartialMatch(text, *compiled_);
}

}  // namespace mdl::format
