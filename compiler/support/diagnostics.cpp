#include "compiler/support/diagnostics.h"

#include <algorithm>
#include <array>

namespace mdl {
namespace {

constexpr CodeInfo kCodes[] = {
#define MDL_DIAGNOSTIC(id, code, severity, text) {code, Severity::severity, text},
#include "compiler/support/diagnostics.def"
#undef MDL_DIAGNOSTIC
};

}  // namespace

const CodeInfo& info(Code code) {
  return kCodes[static_cast<size_t>(code)];
}

std::vector<Code> all_codes() {
  std::vector<Code> codes;
  for (size_t i = 0; i < std::size(kCodes); i++) codes.push_back(static_cast<Code>(i));
  return codes;
}

Diagnostic& Diagnostic::note(Span at, std::string text) {
  notes.push_back({at, std::move(text)});
  return *this;
}

Diagnostic& Diagnostic::hint(std::string text) {
  if (!text.empty()) hints.push_back(std::move(text));
  return *this;
}

Diagnostic& Diagnostics::report_text(Code code, Span span, std::string message) {
  Severity severity = warnings_are_errors_ ? Severity::error : info(code).severity;
  Diagnostic diagnostic{code, severity, span, std::move(message), {}, {}};
  bool error = severity == Severity::error;
  (error ? errors_ : warnings_)++;
  size_t& kept = error ? kept_errors_ : kept_warnings_;
  if (kept == kLimit) return discarded_ = std::move(diagnostic);
  kept++;
  return kept_.emplace_back(std::move(diagnostic));
}

size_t Diagnostics::dropped() const {
  return errors_ + warnings_ - kept_.size();
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> result = kept_;
  std::stable_sort(result.begin(), result.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.span.file, a.span.begin) < std::pair(b.span.file, b.span.begin);
  });
  return result;
}

}  // namespace mdl
