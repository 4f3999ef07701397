// What the compiler has to say about the user's source.
//
//   Diagnostics diagnostics;
//   diagnostics.report(Code::unknown_name, span, name).hint("did you mean 'x'?").note(other, "...");
//   ...
//   std::cerr << render_text(diagnostics, sources, {});
//   return diagnostics.has_errors() ? 1 : 0;
//
// Every message has a code, a severity and a text with holes in diagnostics.def; a test
// fails when a code has no golden case. report() never throws and never stops anything:
// each step goes on as far as makes sense, and the driver asks has_errors() between steps.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/source.h"

namespace mdl {

enum class Severity : uint8_t { error, warning };

enum class Code : uint16_t {
#define MDL_DIAGNOSTIC(id, code, severity, text) id,
#include "compiler/support/diagnostics.def"
#undef MDL_DIAGNOSTIC
};

struct CodeInfo {
  std::string_view name;  // "E0001"
  Severity severity;
  std::string_view text;  // with fmt holes
};
const CodeInfo& info(Code);
std::vector<Code> all_codes();

struct Note {
  Span span;
  std::string text;
};

struct Diagnostic {
  Code code;
  Severity severity;  // of this one: -Werror turns a warning into an error
  Span span;
  std::string message;
  std::vector<Note> notes;
  std::vector<std::string> hints;

  Diagnostic& note(Span at, std::string text);
  Diagnostic& hint(std::string text);  // an empty one is left out
};

class Diagnostics {
 public:
  // The most that are kept of errors, and likewise of warnings; the rest are counted.
  static constexpr size_t kLimit = 100;

  explicit Diagnostics(bool warnings_are_errors = false) : warnings_are_errors_(warnings_are_errors) {}

  // The reference is good until the next report.
  template <typename... Args>
  Diagnostic& report(Code code, Span span, const Args&... args) {
    return report_text(code, span, fmt::format(fmt::runtime(info(code).text), args...));
  }

  bool has_errors() const { return errors_ > 0; }
  size_t errors() const { return errors_; }
  size_t warnings() const { return warnings_; }
  size_t dropped() const;                  // reported beyond the limit
  std::vector<Diagnostic> sorted() const;  // by file and position; those at one place in order of report

 private:
  Diagnostic& report_text(Code code, Span span, std::string message);

  bool warnings_are_errors_;
  std::vector<Diagnostic> kept_;
  Diagnostic discarded_{};
  size_t errors_ = 0;
  size_t warnings_ = 0;
  size_t kept_errors_ = 0;
  size_t kept_warnings_ = 0;
};

struct RenderOptions {
  bool colour = false;
};

// FILE:LINE:COL: error: TEXT [CODE], the source line, a caret line, notes and hints.
// Control bytes of the source never reach the terminal.
std::string render_text(const Diagnostics& diagnostics, const Sources& sources, RenderOptions options = {});

// Text from a source, fit to stand in a message: shortened, control bytes replaced.
std::string printable(std::string_view text, size_t limit = 40);

}  // namespace mdl
