// The compiler's messages about the user's source.
//
//   Diagnostics diagnostics;
//   diagnostics.report(DiagnosticCode::unknown_name, span, name).hint("did you mean 'x'?").note(other,
//   "...");
//   ...
//   std::cerr << render_text(diagnostics, sources, {});
//   return diagnostics.has_failed() ? 1 : 0;
//
// Every message has a code, a severity and a text with holes in diagnostics.def; a test
// fails when a code has no golden case. report() never throws and never stops anything:
// each step goes on as far as makes sense, and the driver asks has_errors() between steps. A warning that
// -Werror makes an error is none there: no later warning is lost for it. The driver asks has_failed() at the
// end.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/source.h"

namespace mdl {

enum class Severity : uint8_t { error, warning };

enum class DiagnosticCode : uint16_t {
#define MDL_DIAGNOSTIC(id, code, severity, text) id,
#include "compiler/support/diagnostics.def"
#undef MDL_DIAGNOSTIC
};

struct CodeInfo {
  std::string_view name;  // "E0001"
  std::string_view word;  // "set_flag"; as a warning's name it is spelled "set-flag"
  Severity severity;
  std::string_view text;  // with fmt holes
};
const CodeInfo& info(DiagnosticCode);
std::vector<DiagnosticCode> all_codes();
std::string warning_name(DiagnosticCode);  // "set-flag", which -W takes

// The level of each warning: -WNAME, -Wno-NAME, -Werror, -Werror=NAME.
class WarningPolicy {
 public:
  enum class Level : uint8_t { off, warning, error };

  explicit WarningPolicy(bool all_are_errors = false);
  Level of(DiagnosticCode code) const { return levels_[static_cast<size_t>(code)]; }

  // Takes the word behind -W: "NAME", "no-NAME", "error", "no-error", "error=NAME", "no-error=NAME", where
  // NAME may be a code, too. The later one counts. Returns what is wrong, "" for nothing.
  std::string apply(std::string_view word);

 private:
  std::string set(std::string_view name, Level level);

  std::vector<Level> levels_;
};

struct Note {
  Span span;
  std::string text;
};

// A change of the source: the text in place of the span.
struct SourceEdit {
  Span span;
  std::string text;
};

struct Suggestion;  // compiler/support/suggest.h

struct Diagnostic {
  DiagnosticCode code;
  Severity severity;  // of this one: -Werror turns a warning into an error
  Span span;
  std::string message;
  std::vector<Note> notes;
  std::vector<std::string> hints;
  std::vector<SourceEdit> edits;  // what the hint says, for programs; all of them together

  Diagnostic& note(Span at, std::string text);
  Diagnostic& hint(std::string text);  // an empty one is left out
  // "did you mean 'x'?", which is an edit if the diagnostic's span is just the word in question.
  Diagnostic& hint(const Suggestion& suggestion);
  Diagnostic& edit(Span at, std::string text);
};

class Diagnostics {
 public:
  // The most that are kept of errors, and likewise of warnings; the rest are counted.
  static constexpr size_t kLimit = 100;

  explicit Diagnostics(WarningPolicy policy = WarningPolicy()) : policy_(std::move(policy)) {}

  // The reference is good until the next report.
  template <typename... Args>
  Diagnostic& report(DiagnosticCode code, Span span, const Args&... args) {
    return report_text(code, span, fmt::format(fmt::runtime(info(code).text), args...));
  }

  // Puts all that was reported elsewhere: `to` takes a place and returns another. Edits go: they were for the old places.
  void move(const std::function<Span(Span)>& to);

  bool has_errors() const { return errors_ > 0; }  // in the source
  bool has_failed() const { return errors_ + promoted_ > 0; }
  size_t errors() const { return errors_; }
  size_t warnings() const { return warnings_; }
  size_t dropped() const;                  // reported beyond the limit
  std::vector<Diagnostic> sorted() const;  // by file and position; those at one place in order of report

 private:
  Diagnostic& report_text(DiagnosticCode code, Span span, std::string message);

  WarningPolicy policy_;
  std::vector<Diagnostic> kept_;
  Diagnostic discarded_{};
  size_t errors_ = 0;
  size_t promoted_ = 0;  // warnings that are reported as errors
  size_t warnings_ = 0;
  size_t kept_errors_ = 0;
  size_t kept_warnings_ = 0;
};

struct RenderOptions {
  bool colour = false;
};

// "E0201", "W0302, -Wobsolete", "W0302, -Werror=obsolete": what stands in brackets behind a message.
std::string label(const Diagnostic& diagnostic);

// FILE:LINE:COL: error: TEXT [CODE], the source line, a caret line, notes and hints.
// Control bytes of the source never reach the terminal.
std::string render_text(const Diagnostics& diagnostics, const Sources& sources, RenderOptions options = {});

// Text from a source, fit to stand in a message: shortened, control bytes replaced.
std::string printable(std::string_view text, size_t limit = 40);

}  // namespace mdl
