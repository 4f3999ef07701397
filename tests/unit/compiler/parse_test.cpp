// Text to tree: what is accepted, what is said about the rest and where, and that no
// input can crash the parser.
#include "compiler/parse/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ast/dump.h"

namespace mdl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Parsed {
  std::string dump;
  std::vector<std::string> errors;  // "LINE:COL CODE message"
  std::string rendered;
};

Parsed parse_text(const std::string& text, Standard standard = Standard::mdl26) {
  Sources sources;
  const Source& source = sources.add("t.mdl", text);
  Diagnostics diagnostics;
  ast::File file = parse(source, standard, diagnostics);
  Parsed result{ast::dump(file, source), {}, render_text(diagnostics, sources)};
  for (const Diagnostic& d : diagnostics.sorted()) {
    format::Position at = sources.position(d.span);
    result.errors.push_back(fmt::format("{}:{} {} {}", at.line, at.column, info(d.code).name, d.message));
  }
  return result;
}

// The code of one insertion, as the dump shows its expressions.
std::string code(const std::string& text) {
  Parsed parsed = parse_text("append f.entry (* " + text + " *)");
  if (!parsed.errors.empty()) return parsed.rendered;
  std::string lines;
  size_t at = parsed.dump.find('\n') + 1;
  while (at < parsed.dump.size()) {
    size_t end = parsed.dump.find(" @", at);
    lines += parsed.dump.substr(at + 2, end - at - 2) + ";";
    at = parsed.dump.find('\n', at) + 1;
  }
  return lines;
}

TEST(Parse, EmptyFileAndComments) {
  EXPECT_THAT(parse_text("").errors, IsEmpty());
  EXPECT_THAT(parse_text("// only a comment").errors, IsEmpty());
  EXPECT_THAT(parse_text("\xEF\xBB\xBF;;").errors, IsEmpty());
}

TEST(Parse, EveryKindOfDefinition) {
  Parsed parsed = parse_text(R"(
resourceList msg_func is procedure { items { "send", "recv" }; flavor { unix, mpi }; library true; }
List one is string { items { "a" }; flavor = { unix }; }
list (procedure, "two", ("a", "b"), TRUE, unix);
constraint inProc /Code/*/* is counter { append preInsn $constraint[0].entry (* inProc += 1; *) }
constraint msg /SyncObject/Message is default;
metric m {
  name "M"; units ops; unitsType unnormalized; aggregateOperator sum; style EventCounter;
  flavor { unix }; mode normal; constraint inProc; counter temp;
  constraint tag /SyncObject/Message/* is replace counter { }
  base is counter { foreach f in msg_func { if (f.name != "x") prepend postinsn f.return constrained (* m++; *) } }
}
daemon d { command "paradynd"; flavor unix; host "h"; }
process p { command "a b"; daemon d; }
visi v { command "bars"; limit 2; }
tunable_constant { "rate" 20.0; "flag" true; }
tunable_constant "other" -1;
exclude "/Code/libc.so.6/malloc";
exclude noCase regex "^mem.*";
foreach f in $procedures append f.entry (* *)
)");
  EXPECT_THAT(parsed.errors, IsEmpty()) << parsed.rendered;
  EXPECT_THAT(parsed.dump, HasSubstr("foreach f in msg_func @"));
  EXPECT_THAT(parsed.dump, HasSubstr("prepend postInsn f.return constrained @"));
  EXPECT_THAT(parsed.dump, HasSubstr("constraint tag /SyncObject/Message/* is counter @"));
}

TEST(Parse, Precedence) {
  EXPECT_EQ(code("a = b = 1 + 2 * -c;"), "(a = (b = (1 + (2 * (-c)))));");
  EXPECT_EQ(code("a += b < c && d == e || f;"), "(a += (((b < c) && (d == e)) || f));");
  EXPECT_EQ(code("a | b ^ c & d == e << 1 + 2;"), "(a | (b ^ (c & (d == (e << (1 + 2))))));");
  EXPECT_EQ(code("a - b - c; -9223372036854775808;"), "((a - b) - c);-9223372036854775808;");
  EXPECT_EQ(code("c++; --c; f(1, \"s\", &c); $arg[0] > 0x10;"),
            "(c++);(--c);f(1, \"s\", (&c));($arg[0] > 16);");
  EXPECT_EQ(code("!a.b[1](2)++;"), "(!(a.b[1](2)++));");
}

TEST(Parse, NamesAndKeywordsDoNotClash) {
  const char* keywords[] = {"resourceList", "List",       "list",         "procedure", "module",
                            "string",       "int",        "float",        "flavor",    "items",
                            "library",      "foreach",    "in",           "metric",    "name",
                            "units",        "unitsType",  "normalized",   "mode",      "developer",
                            "normal",       "sum",        "style",        "base",      "is",
                            "append",       "prepend",    "constraint",   "replace",   "default",
                            "derived",      "counter",    "processTimer", "void",      "Call",
                            "daemon",       "process",    "visi",         "exclude",   "tunable_constant",
                            "noCase",       "regex",      "command",      "host",      "limit",
                            "metfocus",     "constrained"};
  for (std::string k : keywords) {
    Parsed parsed = parse_text(
        fmt::format("metric {0} {{ name \"x\"; units {0}; counter {0}; flavor {{ {0} }}; constraint {0};\n"
                    "base is counter {{ foreach {0} in {0} append {0}.{0} (* {0} = {0} + 1; *) }} }}\n"
                    "resourceList {0} is procedure {{ items {{}}; }}\n"
                    "constraint {0} /{0}/* is default;\nvisi {0} {{ {0} {0}; }}\n",
                    k));
    EXPECT_THAT(parsed.errors, IsEmpty()) << k << "\n" << parsed.rendered;
  }
}

TEST(Parse, ErrorsAreLocatedInBytes) {
  EXPECT_THAT(parse_text("exclude \"\xC3\xA9\" x;").errors,
              ElementsAre("1:13 E0010 expected ';' after \"\xC3\xA9\""));
  EXPECT_THAT(parse_text("metric m {\n\tname \"x\"\n}").errors,
              ElementsAre("2:10 E0010 expected ';' after \"x\""));
}

TEST(Parse, SeveralErrorsInOneFile) {
  Parsed parsed = parse_text(R"(metrc a { name "x"; base is counter { } }
metric b { name 5; units ops; bogus x; style EventCounter; }
metric c { base is counter { foreach f im $procedures append f.entry (* c++ *) } }
metric d { base is counter { apend f.entry (* d++; e++; *) append f.entry (* d+; *) } }
)");
  EXPECT_THAT(
      parsed.errors,
      ElementsAre(HasSubstr("1:1 E0001 expected a definition"), HasSubstr("2:17 E0001 expected a string"),
                  HasSubstr("2:31 E0001 expected a metric field"), HasSubstr("3:40 E0001 expected 'in'"),
                  "3:76 E0010 expected ';' after '++'", HasSubstr("4:30 E0001 expected a statement"),
                  HasSubstr("4:80 E0001 expected an expression")))
      << parsed.rendered;
}

TEST(Parse, ExtensionsAreRefusedInClassic) {
  EXPECT_THAT(parse_text("append f.entry (* c--; *)", Standard::classic).errors,
              ElementsAre("1:20 E0009 '--' is not in the classic language"));
  EXPECT_THAT(parse_text("append f.entry (* if (a) b = 0x1; else c++; *)", Standard::classic).errors,
              ElementsAre(HasSubstr("1:30 E0009 a hexadecimal"), HasSubstr("1:35 E0009 'else'")));
  EXPECT_THAT(parse_text("append f.entry (* if (a) b++; *)", Standard::classic).errors, IsEmpty());
}

TEST(Parse, BadTokens) {
  EXPECT_THAT(parse_text("exclude \"abc;\nexclude \"d\";").errors,
              ElementsAre("1:9 E0003 this string does not end on its line"));
  EXPECT_THAT(parse_text("visi v { limit 12ab; }").errors, ElementsAre("1:16 E0004 '12ab' is not a number"));
  EXPECT_THAT(parse_text("visi v { limit 9223372036854775808; }").errors,
              ElementsAre(HasSubstr("1:16 E0005")));
  EXPECT_THAT(parse_text("exclude # \"d\";\n\xC3\xA9").errors,
              ElementsAre("1:9 E0002 '#' has no meaning here", HasSubstr("2:1 E0002")));
}

TEST(Parse, AnyBytesAreSafe) {
  EXPECT_THAT(parse_text(std::string("metric \0 x", 10)).errors,
              ElementsAre("1:8 E0007 this is not text: it has a NUL byte"));
  EXPECT_THAT(parse_text("exclude \"\xC3\";").errors,
              ElementsAre("1:10 E0007 this is not text: it is not UTF-8"));
  EXPECT_THAT(parse_text("\xED\xA0\x80").errors, ElementsAre(HasSubstr("1:1 E0007")));
  EXPECT_THAT(parse_text(std::string(Source::kMaxBytes + 1, ' ')).errors,
              ElementsAre(HasSubstr("1:1 E0008")));
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; i++) all += text;
  return all;
}

TEST(Parse, NestingIsBounded) {
  const size_t n = 20000;
  std::string code[] = {repeated("(", n),
                        repeated("-", n),
                        repeated("a = ", n),
                        repeated("if (a) ", n),
                        repeated("{", n),
                        "a" + repeated(" + a", n) + "; *)",
                        "a" + repeated("[a", n),
                        "a" + repeated(".a", n) + "; *)",
                        "a" + repeated("()", n) + "; *)",
                        "f(" + repeated("f(", n)};
  for (const std::string& c : code) {
    Parsed parsed = parse_text("append f.entry (* " + c);
    EXPECT_THAT(parsed.errors, testing::Contains(HasSubstr("E0006"))) << c.substr(0, 40);
  }
  for (const std::string& s : {repeated("{", n), repeated("foreach f in g ", n), repeated("if (a) ", n),
                               "append a" + repeated("[a", n)}) {
    EXPECT_THAT(parse_text(s).errors, testing::Contains(HasSubstr("E0006"))) << s.substr(0, 40);
  }
  EXPECT_THAT(parse_text("append a" + repeated(".a", n) + " (* *)").errors, ElementsAre(HasSubstr("E0006")));
  EXPECT_THAT(
      parse_text("append f.entry (* " + repeated("(", 100) + "a" + repeated(")", 100) + "; *)").errors,
      IsEmpty());
}

TEST(Parse, ErrorsAreCapped) {
  Parsed parsed = parse_text(repeated("metric { ; }\n", 5000));
  EXPECT_EQ(parsed.errors.size(), Diagnostics::kLimit);
  EXPECT_THAT(parsed.rendered, HasSubstr("more not shown"));
}

}  // namespace
}  // namespace mdl
