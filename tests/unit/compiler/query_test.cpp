// Queries: what is read of them, what they stand for, and where a place of that comes from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "compiler/parse/parse.h"
#include "compiler/query/expand.h"

namespace mdl {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Expanded {
  std::vector<Source> texts;
  query::Expansion expansion;
  std::string rendered;
};

Expanded expand(const std::vector<std::string>& queries) {
  Expanded out;
  Diagnostics diagnostics;
  std::vector<ast::Query> trees;
  for (const std::string& text : queries)
    out.texts.emplace_back(static_cast<uint32_t>(out.texts.size() + 1), "query", text);
  std::vector<const Source*> pointers;
  for (const Source& text : out.texts) {
    pointers.push_back(&text);
    if (auto tree = parse_query(text, diagnostics)) trees.push_back(std::move(*tree));
  }
  if (!diagnostics.has_errors()) out.expansion = query::expand(std::move(trees), pointers, "", diagnostics);
  Sources sources;
  sources.add("query.mdl", out.expansion.mdl);
  for (const Source& text : out.texts) sources.add("query", std::string(text.text()));
  out.rendered = render_text(diagnostics, sources);
  return out;
}

// The text of the query to which a text of the MDL belongs; the last one, since queries stand in comments, too.
std::string origin(const Expanded& of, const std::string& in_mdl) {
  const auto begin = static_cast<uint32_t>(of.expansion.mdl.rfind(in_mdl));
  const Span span = of.expansion.origin({0, begin, begin + static_cast<uint32_t>(in_mdl.size())});
  return std::string(of.texts.at(span.file - 1).text(span));
}

TEST(Query, PlacesOfTheMdlAreThoseOfTheQuery) {
  const Expanded one = expand({"count a, \"ns::b(int)\" if $arg[0] > 4096 && $arg[1] == 2 within c"});
  EXPECT_EQ(one.rendered, "");
  EXPECT_EQ(origin(one, "$arg[1] == 2"), "$arg[1] == 2");
  EXPECT_EQ(origin(one, "4096"), "4096");
  EXPECT_EQ(origin(one, "\"ns::b(int)\""), "\"ns::b(int)\"");
  EXPECT_EQ(origin(one, "\"a\""), "a");
  EXPECT_EQ(origin(one, "_inside += 1"), "c");
  EXPECT_EQ(origin(one, "units Calls"), one.texts[0].text());
}

TEST(Query, EachOfSeveralHasItsOwnPlaces) {
  const Expanded two = expand({"sum $arg[0] at f", "hist $arg[3] at g"});
  EXPECT_EQ(two.rendered, "");
  EXPECT_EQ(origin(two, "$arg[3]"), "$arg[3]");
}

TEST(Query, NamesOfMetricsAreIdentifiersOfTheirOwn) {
  const std::string mdl =
      expand({"count f", "count  f", "count f.return", "count f as count_f_4"}).expansion.mdl;
  for (const char* name :
       {"metric count_f {", "metric count_f_2 {", "metric count_f_3 {", "metric count_f_4 {"})
    EXPECT_THAT(mdl, HasSubstr(name));
  EXPECT_THAT(expand({"count f as x", "count g as x"}).rendered, HasSubstr("'x' is defined twice"));
  const std::string longest = expand({"count " + std::string(5000, 'f')}).expansion.mdl;
  EXPECT_THAT(longest, Not(HasSubstr("metric count_" + std::string(60, 'f'))));
}

// The text of a query stands in a comment and in a string of the MDL, and must not leave them.
TEST(Query, NothingOfTheTextLeavesItsPlace) {
  const std::string mdl = expand({"count \"a b\" // \" metric x {\n"}).expansion.mdl;
  EXPECT_THAT(mdl, HasSubstr("name \"count 'a b' // ' metric x {\";"));
  EXPECT_EQ(mdl.find("\n metric x"), std::string::npos);
  EXPECT_THAT(mdl, HasSubstr("items { \"a b\" };"));
  EXPECT_THAT(expand({"sum $arg[0] // c\n + 1 at f"}).expansion.mdl, HasSubstr("+= $arg[0] // c\n + 1;"));
}

TEST(Query, WordsOfQueriesAreNamesEverywhereElse) {
  Diagnostics diagnostics;
  Sources sources;
  const Source& source = sources.add("t.mdl", R"(
resourceList by is procedure { items { "at", "within" }; flavor { as }; }
metric within { name "x"; units at; aggregateOperator sum; style EventCounter; flavor { as }; counter by;
  base is counter { foreach at in by { append at.entry (* within += by; *) } } })");
  EXPECT_EQ(parse(source, diagnostics).definitions.size(), 2U);
  EXPECT_EQ(render_text(diagnostics, sources), "");
  EXPECT_EQ(expand({"count at within by as within"}).rendered, "");
}

TEST(Query, AnyBytesAreSafe) {
  for (const char* text : {"",
                           " ",
                           "\xff",
                           "count \x01",
                           "count /Code/",
                           "count /Code",
                           "count /C",
                           "/Code/a/b",
                           "count ::a",
                           "count a::",
                           "count a::~b",
                           "count \"",
                           "count /Code/\"a",
                           "count a if \"",
                           "(*",
                           "count f by",
                           "count f.",
                           "count f*.*",
                           "sum at at at",
                           "by by by by",
                           "as",
                           "count within within within"})
    (void)expand({text});
  EXPECT_THAT(expand({"count " + std::string(100000, '(')}).rendered, HasSubstr("error"));
  EXPECT_THAT(expand({"count f if " + std::string(100000, '(')}).rendered, HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace mdl
