// Text that a terminal must not obey.
#include "base/say.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace mdl {
namespace {

TEST(Say, ControlCharactersAreShownAsQuestionMarks) {
  EXPECT_EQ(harmless("a\033[31mb\007\x7f\r\n"), "a?[31mb????");
  EXPECT_EQ(harmless("tab\tline\n\033", "\n\t"), "tab\tline\n?");
  EXPECT_EQ(harmless(std::string_view("\0x", 2)), "?x");
}

TEST(Say, ControlCharactersOfTwoBytesAreNoneEither) {
  EXPECT_EQ(harmless("\u009b31m\u0085\u009f"), "?31m??");
  EXPECT_EQ(harmless("\u00a0\u00e9\u20ac\U0001f600"), "\u00a0\u00e9\u20ac\U0001f600");
}

TEST(Say, MarksThatTurnTextRound) {
  EXPECT_EQ(harmless("a\u202eb\u2066c\u2069d\u200ee\u200ff\u2028g"), "a?b?c?d?e?f?g");
  EXPECT_EQ(harmless("\u200d\u2030\u2065\u206a"), "\u200d\u2030\u2065\u206a");
}

TEST(Say, BytesThatAreNoCharacters) {
  EXPECT_EQ(harmless("\xff\xc2"), "??");
  EXPECT_EQ(harmless("\xe2\x80"), "??");
  EXPECT_EQ(harmless("\xc0\x9b[31m"), "??[31m") << "not the shortest way to write one";
}

TEST(Say, AnArgumentStaysInItsLine) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  const std::string name = "evil\nprocess 1 is not instrumented";
  say(file, "{}: {} of {:>4}\n", name, 7, "\033[2J");
  say(file, "{}\n", fmt::join(std::vector<std::string>{"a\033", "b"}, ", "));
  std::fclose(file);
  const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  EXPECT_EQ(std::string(text, size), "evil?process 1 is not instrumented: 7 of ?[2J\na?, b\n");
}

TEST(Say, AWarningIsSaidOnce) {
  std::string errors;
  keep_errors(&errors);
  for (const char* object : {"a\tb", "c", "a\tb"}) warn_once("{} is old", object);
  keep_errors(nullptr);
  EXPECT_EQ(errors, "warning: a?b is old\nwarning: c is old\n");
}

}  // namespace
}  // namespace mdl
