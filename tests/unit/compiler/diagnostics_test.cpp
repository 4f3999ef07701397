// Sources, positions, and how diagnostics look.
#include "compiler/support/diagnostics.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/support/suggest.h"

namespace mdl {
namespace {

format::Position at(uint32_t line, uint32_t column) {
  return {0, line, column};
}

TEST(Source, Positions) {
  Source source(0, "f", "ab\r\n\n\xC3\xA9x");
  EXPECT_EQ(source.position(0), at(1, 1));
  EXPECT_EQ(source.position(3), at(1, 4));
  EXPECT_EQ(source.position(4), at(2, 1));
  EXPECT_EQ(source.position(5), at(3, 1));
  EXPECT_EQ(source.position(7), at(3, 3));
  EXPECT_EQ(source.position(4000000000), at(3, 4));
  EXPECT_EQ(source.line(1), "ab");
  EXPECT_EQ(source.line(2), "");
  EXPECT_EQ(source.line(3), "\xC3\xA9x");
  EXPECT_EQ(source.text({0, 7, 100}), "x");
  EXPECT_EQ(source.text({0, 100, 50}), "");
}

TEST(Source, EmptyFileHasOneLine) {
  Source source(0, "f", "");
  EXPECT_EQ(source.position(0), at(1, 1));
  EXPECT_EQ(source.line(1), "");
}

TEST(Source, FilesThatCannotBeRead) {
  Sources sources;
  auto missing = sources.read("/nowhere/at/all.mdl");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().text.find("/nowhere/at/all.mdl"), std::string::npos);
  EXPECT_FALSE(sources.read("/"));
  EXPECT_EQ(sources.size(), 0u);
}

TEST(Render, CaretStandsUnderTheSpan) {
  Sources sources;
  sources.add("a.mdl", "one\n\t\xC3\xA9\xC3\xA9 word next\n");
  Diagnostics diagnostics;
  diagnostics.report(DiagnosticCode::unknown_name, {0, 10, 14}, "word")
      .note({0, 0, 3}, "see here")
      .hint("try this")
      .hint("");
  EXPECT_EQ(render_text(diagnostics, sources),
            "a.mdl:2:7: error: 'word' is not defined [E0201]\n"
            "  \t\xC3\xA9\xC3\xA9 word next\n"
            "  \t   ^~~~\n"
            "a.mdl:1:1: note: see here\n"
            "  one\n"
            "  ^~~\n"
            "hint: try this\n");
}

TEST(Render, ControlBytesNeverReachTheTerminal) {
  Sources sources;
  sources.add("a\x1b[2J.mdl", "x \x1b[31m \x7f");
  Diagnostics diagnostics;
  diagnostics.report(DiagnosticCode::stray, {0, 2, 3}, printable("\x1b"));
  EXPECT_EQ(render_text(diagnostics, sources).find('\x1b'), std::string::npos);
  EXPECT_NE(render_text(diagnostics, sources, {true}).find("\x1b[1;31merror:"), std::string::npos);
}

TEST(Render, LongLinesAreCut) {
  Sources sources;
  sources.add("a.mdl", std::string(100000, 'x') + "y" + std::string(100000, 'x'));
  Diagnostics diagnostics;
  diagnostics.report(DiagnosticCode::unused_value, {0, 100000, 150000});
  std::string text = render_text(diagnostics, sources);
  EXPECT_LT(text.size(), 600u);
  size_t line = text.find("  ...");
  size_t caret = text.find('^');
  EXPECT_EQ(text[text.find('y', line)], 'y');
  EXPECT_EQ(text.find('y', line) - line, caret - (text.rfind('\n', caret) + 1));
}

TEST(Diagnostics, SortedAndLimited) {
  Diagnostics diagnostics;
  for (uint32_t i = 0; i < 150; i++) diagnostics.report(DiagnosticCode::unused_value, {0, 1000 - i, 1001});
  diagnostics.report(DiagnosticCode::too_large, {0, 5, 5}, 1, "bytes");
  EXPECT_EQ(diagnostics.warnings(), 150u);
  EXPECT_EQ(diagnostics.errors(), 1u);
  EXPECT_EQ(diagnostics.dropped(), 50u);
  auto sorted = diagnostics.sorted();
  ASSERT_EQ(sorted.size(), 101u);
  EXPECT_EQ(sorted[0].code, DiagnosticCode::too_large);
  for (size_t i = 1; i < sorted.size(); i++) EXPECT_LE(sorted[i - 1].span.begin, sorted[i].span.begin);
}

TEST(Diagnostics, WarningsCanBeErrors) {
  Diagnostics diagnostics(WarningPolicy(true));
  diagnostics.report(DiagnosticCode::unused_value, {0, 0, 1});
  EXPECT_TRUE(diagnostics.has_failed());
  EXPECT_EQ(diagnostics.sorted()[0].severity, Severity::error);
  EXPECT_FALSE(diagnostics.has_errors()) << "the source has none: checking goes on";
}

TEST(Diagnostics, CodesAreUniqueAndSayTheirSeverity) {
  std::vector<std::string_view> names;
  for (DiagnosticCode code : all_codes()) {
    names.push_back(info(code).name);
    EXPECT_EQ(info(code).name[0], info(code).severity == Severity::error ? 'E' : 'W') << info(code).name;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Suggest, NearestWord) {
  std::vector<std::string_view> words{"procedure", "module", "Calls", "calls"};
  EXPECT_EQ(did_you_mean("proccedure", words), "did you mean 'procedure'?");
  EXPECT_EQ(did_you_mean("mdoule", words), "did you mean 'module'?");
  EXPECT_EQ(did_you_mean("CALLS", words), "did you mean 'Calls'?");
  EXPECT_EQ(did_you_mean("entirely", words), "");
  EXPECT_EQ(did_you_mean("", words), "");
  EXPECT_EQ(did_you_mean(std::string(100000, 'x'), words), "");
}

}  // namespace
}  // namespace mdl
