#include "compiler/support/diagnostics.h"

#include <algorithm>
#include <array>

#include "compiler/support/suggest.h"

namespace mdl {
namespace {

constexpr CodeInfo kCodes[] = {
#define MDL_DIAGNOSTIC(id, code, severity, text) {code, #id, Severity::severity, text},
#include "compiler/support/diagnostics.def"
#undef MDL_DIAGNOSTIC
};

// Warnings that only -WNAME asks for.
constexpr DiagnosticCode kOffByDefault[] = {DiagnosticCode::vector};

}  // namespace

const CodeInfo& info(DiagnosticCode code) {
  return kCodes[static_cast<size_t>(code)];
}

std::vector<DiagnosticCode> all_codes() {
  std::vector<DiagnosticCode> codes;
  for (size_t i = 0; i < std::size(kCodes); i++) codes.push_back(static_cast<DiagnosticCode>(i));
  return codes;
}

std::string warning_name(DiagnosticCode code) {
  std::string name(info(code).word);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

WarningPolicy::WarningPolicy(bool all_are_errors)
    : levels_(std::size(kCodes), all_are_errors ? Level::error : Level::warning) {
  for (DiagnosticCode code : kOffByDefault) levels_[static_cast<size_t>(code)] = Level::off;
}

std::string WarningPolicy::apply(std::string_view word) {
  auto take = [&](std::string_view prefix) {
    bool taken = word.starts_with(prefix);
    if (taken) word.remove_prefix(prefix.size());
    return taken;
  };
  bool on = !take("no-");
  if (word == "error") {
    for (Level& level : levels_)
      if (level != Level::off) level = on ? Level::error : Level::warning;
    return "";
  }
  if (take("error=")) return set(word, on ? Level::error : Level::warning);
  return set(word, on ? Level::warning : Level::off);
}

std::string WarningPolicy::set(std::string_view name, Level level) {
  std::vector<std::string> names;
  for (DiagnosticCode code : all_codes()) {
    if (info(code).severity != Severity::warning) continue;
    names.push_back(warning_name(code));
    if (name != names.back() && name != info(code).name) continue;
    levels_[static_cast<size_t>(code)] = level;
    return "";
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::string near = did_you_mean(name, views).text();
  return fmt::format("there is no warning '{}'; {}", printable(name),
                     near.empty() ? fmt::format("there are {}", one_of(views)) : near);
}

std::string label(const Diagnostic& d) {
  const CodeInfo& about = info(d.code);
  if (about.severity == Severity::error) return std::string(about.name);
  return fmt::format("{}, -W{}{}", about.name, d.severity == Severity::error ? "error=" : "",
                     warning_name(d.code));
}

Diagnostic& Diagnostic::note(Span at, std::string text) {
  notes.push_back({at, std::move(text)});
  return *this;
}

Diagnostic& Diagnostic::hint(std::string text) {
  if (!text.empty()) hints.push_back(std::move(text));
  return *this;
}

Diagnostic& Diagnostic::hint(const Suggestion& suggestion) {
  if (suggestion.word.empty()) return *this;
  if (span.end - span.begin == suggestion.wanted) edit(span, suggestion.word);
  return hint(suggestion.text());
}

Diagnostic& Diagnostic::edit(Span at, std::string text) {
  edits.push_back({at, std::move(text)});
  return *this;
}

Diagnostic& Diagnostics::report_text(DiagnosticCode code, Span span, std::string message) {
  Severity severity = info(code).severity;
  WarningPolicy::Level level = policy_.of(code);
  if (severity == Severity::warning && level == WarningPolicy::Level::error) severity = Severity::error;
  Diagnostic diagnostic{code, severity, span, std::move(message), {}, {}, {}};
  if (severity == Severity::warning && level == WarningPolicy::Level::off)
    return discarded_ = std::move(diagnostic);
  bool error = severity == Severity::error;
  (!error ? warnings_ : info(code).severity == Severity::error ? errors_ : promoted_)++;
  size_t& kept = error ? kept_errors_ : kept_warnings_;
  if (kept == kLimit) return discarded_ = std::move(diagnostic);
  kept++;
  return kept_.emplace_back(std::move(diagnostic));
}

void Diagnostics::move(const std::function<Span(Span)>& to) {
  for (Diagnostic& d : kept_) {
    d.span = to(d.span);
    for (Note& note : d.notes) note.span = to(note.span);
    std::erase_if(d.edits, [&](const SourceEdit& edit) { return to(edit.span) != edit.span; });
  }
}

size_t Diagnostics::dropped() const {
  return errors_ + promoted_ + warnings_ - kept_.size();
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> result = kept_;
  std::stable_sort(result.begin(), result.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.span.file, a.span.begin) < std::pair(b.span.file, b.span.begin);
  });
  return result;
}

}  // namespace mdl
