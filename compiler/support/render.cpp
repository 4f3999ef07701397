// Diagnostics as text for people.
//
// The source line is hostile: it may be a megabyte long and hold escape sequences. A
// window around the caret is shown, with control bytes replaced. Tabs are kept, in the
// caret line too, so that both lines align whatever the terminal's tab stops are; a
// multi-byte character counts as one column of the caret line.
#include <algorithm>

#include "base/say.h"
#include "base/utf8.h"
#include "compiler/support/diagnostics.h"

namespace mdl {
namespace {

constexpr uint32_t kWindow = 160;  // bytes of a source line that are shown
constexpr uint32_t kBefore = 100;  // of these, at most so many before the caret

struct Style {
  std::string_view bold, error, warning, note, caret, reset;
};
constexpr Style kPlain{"", "", "", "", "", ""};
constexpr Style kColour{"\033[1m", "\033[1;31m", "\033[1;35m", "\033[1;36m", "\033[1;32m", "\033[0m"};

std::string without_controls(std::string_view text) {
  return harmless(text, "\t");
}

void write_excerpt(std::string& out, const Source& source, Span span, const Style& style) {
  format::Position at = source.position(span.begin);
  std::string_view line = source.line(at.line);
  auto length = static_cast<uint32_t>(line.size());
  uint32_t caret = std::min(at.column - 1, length);
  uint32_t end = std::clamp(span.end - source.line_begin(at.line), caret, length);

  uint32_t from = caret > kBefore ? caret - kBefore : 0;
  uint32_t to = std::min(length, from + kWindow);
  while (from > 0 && continues_character(line[from])) from--;
  while (to < length && continues_character(line[to])) to++;

  std::string_view lead = from > 0 ? "..." : "";
  out += fmt::format("  {}{}{}\n", lead, without_controls(line.substr(from, to - from)),
                     to < length ? "..." : "");
  out += fmt::format("  {}", std::string(lead.size(), ' '));
  for (uint32_t i = from; i < caret; i++)
    if (!continues_character(line[i])) out += line[i] == '\t' ? '\t' : ' ';
  out += style.caret;
  out += '^';
  for (uint32_t i = caret + 1; i < std::min(end, to); i++)
    if (!continues_character(line[i])) out += '~';
  out += style.reset;
  out += '\n';
}

void write_message(std::string& out, const Sources& sources, Span span, std::string_view label,
                   std::string_view colour, std::string_view text, const Style& style) {
  if (span.file >= sources.size()) {
    out += fmt::format("{}{}:{} {}\n", colour, label, style.reset, without_controls(text));
    return;
  }
  const Source& source = sources[span.file];
  format::Position at = source.position(span.begin);
  out += fmt::format("{}{}:{}:{}:{} {}{}:{} {}\n", style.bold, without_controls(source.path()), at.line,
                     at.column, style.reset, colour, label, style.reset, without_controls(text));
  write_excerpt(out, source, span, style);
}

}  // namespace

std::string render_text(const Diagnostics& diagnostics, const Sources& sources, RenderOptions options) {
  const Style& style = options.colour ? kColour : kPlain;
  std::string out;
  for (const Diagnostic& d : diagnostics.sorted()) {
    bool error = d.severity == Severity::error;
    write_message(out, sources, d.span, error ? "error" : "warning", error ? style.error : style.warning,
                  fmt::format("{} [{}]", d.message, label(d)), style);
    for (const Note& note : d.notes)
      write_message(out, sources, note.span, "note", style.note, note.text, style);
    for (const std::string& hint : d.hints)
      out += fmt::format("{}hint:{} {}\n", style.note, style.reset, without_controls(hint));
  }
  if (size_t more = diagnostics.dropped()) out += fmt::format("note: {} more not shown\n", more);
  return out;
}

std::string printable(std::string_view text, size_t limit) {
  if (text.size() <= limit) return without_controls(text);
  size_t cut = limit;
  while (cut > 0 && continues_character(text[cut])) cut--;
  return without_controls(text.substr(0, cut)) + "...";
}

}  // namespace mdl
