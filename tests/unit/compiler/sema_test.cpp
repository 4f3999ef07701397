// Trees to programs: names, types, placement trees, and the IR that code becomes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/interpret.h"
#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/sema/analyze.h"

namespace mdl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Analyzed {
  Program program;
  std::vector<std::string> said;  // "LINE:COL CODE message"
  std::string rendered;
};

// What is said of definitions that are not complete programs (tests/golden/diagnostics/idle.test has it).
WarningPolicy fragments() {
  WarningPolicy policy;
  for (const char* word :
       {"no-unused-temporary", "no-never-changes", "no-unused-constraint", "no-decided-condition"})
    EXPECT_EQ(policy.apply(word), "");
  return policy;
}

Analyzed analyze_texts(const std::vector<std::string>& texts, const SemaOptions& options = {}) {
  Sources sources;
  Diagnostics diagnostics(fragments());
  std::vector<ast::File> files;
  for (const std::string& text : texts)
    files.push_back(parse(sources.add("t.mdl", text), options.standard, diagnostics));
  Analyzed result;
  if (!diagnostics.has_errors()) result.program = analyze(files, sources, options, diagnostics);
  for (const Diagnostic& d : diagnostics.sorted()) {
    format::Position at = sources.position(d.span);
    result.said.push_back(fmt::format("{}:{} {} {}", at.line, at.column, info(d.code).name, d.message));
  }
  result.rendered = render_text(diagnostics, sources);
  if (diagnostics.has_errors()) return result;
  for (const ir::Snippet& snippet : result.program.snippets) {
    Result<void> verified = ir::verify(snippet);
    EXPECT_TRUE(verified) << verified.error().text;
  }
  return result;
}

Analyzed analyze_text(const std::string& text, const SemaOptions& options = {}) {
  return analyze_texts({text}, options);
}

// A metric `m` with temporaries t and u, and this base.
std::string metric(const std::string& base, const std::string& fields = "") {
  return "metric m { name \"M\"; units ops; aggregateOperator sum; style EventCounter; flavor { unix }; "
         "counter t; counter u;" +
         fields + "\nbase is counter {\n" + base + "\n} }";
}

// The instructions of code at one point of the metric, without the header and the footer of the text form.
std::string lowered(const std::string& code, const std::string& point = "entry") {
  Analyzed a = analyze_text(metric("foreach f in $procedures append f." + point + " (* " + code + " *)"));
  if (a.program.snippets.size() != 1 || !a.said.empty()) return a.rendered;
  std::string lines;
  for (const ir::Inst& inst : a.program.snippets[0].insts)
    lines += ir::print(inst, a.program.snippets[0]) + "; ";
  return lines;
}

TEST(Sema, CompleteMetric) {
  Analyzed a = analyze_text(R"(
resourceList msg_func is procedure { items { "send", "recv" }; flavor { unix }; library true; }
constraint proc /Code/*/* is counter {
  append preInsn $constraint[0].entry (* proc += 1; *)
  prepend preInsn $constraint[0].return (* proc -= 1; *)
}
constraint msgs /SyncObject/Message is default;
metric m {
  name "M"; units ops; aggregateOperator max; style SampledFunction; flavor { unix, mpi }; mode developer;
  constraint proc; constraint msgs;
  constraint tag /SyncObject/Message/* is replace counter {
    foreach f in msg_func append f.entry constrained (* if (long($arg[1]) == $constraint[0]) m++; *)
  }
  base is counter { foreach f in msg_func if (f.name != "recv") append f.entry constrained (* m++; *) }
}
exclude noCase regex "^mem";
)");
  ASSERT_THAT(a.said, IsEmpty()) << a.rendered;
  const format::Manifest& m = a.program.manifest;
  ASSERT_THAT(m.lists, SizeIs(1));
  EXPECT_THAT(m.lists[0].items, ElementsAre("send", "recv"));
  EXPECT_TRUE(m.lists[0].library);
  ASSERT_THAT(m.constraints, SizeIs(2));
  EXPECT_THAT(m.constraints[0].path, ElementsAre("Code", "*", "*"));
  EXPECT_EQ(m.constraints[0].cells[0], (format::Cell{"proc", format::CellKind::flag}));
  EXPECT_EQ(m.constraints[0].placement[1].order, format::Order::prepend);
  EXPECT_TRUE(m.constraints[1].is_default);
  ASSERT_THAT(m.metrics, SizeIs(1));
  const format::Metric& metric = m.metrics[0];
  EXPECT_EQ(metric.aggregate, format::Aggregate::max);
  EXPECT_EQ(metric.units_type, "unnormalized");
  EXPECT_EQ(metric.mode, "developer");
  EXPECT_THAT(metric.constraints, ElementsAre("proc", "msgs"));
  ASSERT_THAT(metric.replacements, SizeIs(1));
  EXPECT_TRUE(metric.replacements[0].replaces);
  EXPECT_EQ(metric.replacements[0].cells[0], (format::Cell{"tag", format::CellKind::counter}));
  EXPECT_EQ(metric.position, (format::Position{0, 8, 1}));
  const format::Placement& loop = metric.placement[0];
  EXPECT_EQ(loop.kind, format::PlacementKind::foreach_);
  EXPECT_EQ(loop.expr.kind, format::ExprKind::list);
  EXPECT_EQ(loop.body[0].kind, format::PlacementKind::if_);
  EXPECT_TRUE(loop.body[0].body[0].constrained);
  EXPECT_EQ(m.excludes[0], (format::Exclude{"^mem", true, true}));
  std::vector<std::string> names;
  for (const ir::Snippet& s : a.program.snippets) names.push_back(s.name);
  EXPECT_THAT(names, ElementsAre("proc_entry", "proc_return", "tag_entry", "m_entry"));
  EXPECT_EQ(a.program.snippets[1].insts[0].op, ir::Op::release);
}

TEST(Sema, KeysHaveNames) {
  const auto names = [](const std::string& keys) {
    const Analyzed a = analyze_text(
        "metric m { name \"M\"; units ops; aggregateOperator sum; style EventCounter; flavor { unix }; base "
        "is "
        "counter keyed by " +
        keys + " { foreach o in $modules foreach f in o.funcs append f.entry (* m++; *) } }");
    EXPECT_THAT(a.said, IsEmpty()) << a.rendered;
    std::vector<format::KeyName> out;
    if (!a.said.empty()) return out;
    for (const format::MetricKey& key : a.program.manifest.metrics.at(0).keys) out.push_back(key.name);
    return out;
  };
  using enum format::KeyName;
  EXPECT_THAT(names("str($arg[0]), str($arg[1]), str($arg[0])"), ElementsAre(str, str, str));
  EXPECT_THAT(names("$caller, str($arg[1]), fd($arg[0])"), ElementsAre(caller, str, fd));
  EXPECT_THAT(names("module(o), path(f), $arg[0]"), ElementsAre(module, path, number));
}

TEST(Sema, SnippetNamesAreUnique) {
  Analyzed a =
      analyze_text(metric("foreach f in $procedures { append f.entry (* m++; *) append f.entry (* m++; *) "
                          "append f.return (* m++; *) }"));
  std::vector<std::string> names;
  for (const ir::Snippet& s : a.program.snippets) names.push_back(s.name);
  EXPECT_THAT(names, ElementsAre("m_entry", "m_entry.2", "m_return"));
}

TEST(Sema, CountersChangeInOneOperation) {
  EXPECT_EQ(lowered("m++;"), "add_cell m, 1; ");
  EXPECT_EQ(lowered("m += 3; m -= 2; m--;"), "add_cell m, 3; add_cell m, -2; add_cell m, -1; ");
  EXPECT_EQ(lowered("m -= t;"), "%0 = load t; %1 = neg %0; add_cell m, %1; ");
  EXPECT_EQ(lowered("m = 5;"), "store m, 5; ");
}

TEST(Sema, CallsAreEnteredBeforeAnyChange) {
  // A change that comes before the call: the whole code is entered first.
  EXPECT_EQ(lowered("m++; k(t);"),
            "%1 = enter_call m.call; jump_zero %1, L0; add_cell m, 1; %0 = load t; call_arg m.call, %0, 0; "
            "%2 = call m.call, 0; leave_call m.call; L0:; ");
  // No change but behind a call: entered where it stands, inner calls first.
  EXPECT_EQ(lowered("if (long($arg[0])) m = k(g(1), 2);"),
            "%0 = arg 0; jump_zero %0, L0; %1 = enter_call m.call; jump_zero %1, L1; call_arg m.call, 1, 0; "
            "%2 = call m.call, 0; leave_call m.call; %3 = enter_call m.call; jump_zero %3, L1; "
            "call_arg m.call, %2, 0; call_arg m.call, 2, 1; %4 = call m.call, 1; leave_call m.call; "
            "store m, %4; L0:; L1:; ");
  // A change on the way around the call.
  EXPECT_THAT(lowered("if (long($arg[0])) k(); m++;"),
              HasSubstr("%1 = enter_call m.call; jump_zero %1, L1; %0 = arg 0; "));
}

TEST(Sema, CallPointsHaveKindsAndOrder) {
  Analyzed a = analyze_text(
      metric("foreach f in $procedures foreach c in f.calls { append preInsn c (* m += long($arg[1]); "
             "*) append postInsn c (* m += long($return); *) append c (* m++; *) }"));
  ASSERT_THAT(a.said, IsEmpty()) << a.rendered;
  ASSERT_THAT(a.program.snippets, SizeIs(3));
  EXPECT_EQ(a.program.snippets[0].point, format::PointKind::call_before);
  EXPECT_EQ(a.program.snippets[1].point, format::PointKind::call_after);
  EXPECT_EQ(a.program.snippets[2].point, format::PointKind::call_before);
  const format::Placement& block = a.program.manifest.metrics[0].placement[0].body[0].body[0];
  EXPECT_EQ(block.body[0].when, format::When::pre);
  EXPECT_EQ(block.body[1].when, format::When::post);
}

TEST(Sema, ReplacementsUseTheMetricsTemporaries) {
  Analyzed a = analyze_text(metric("append $exit.entry (* m++; *)",
                                   "constraint r /Code/*/* is replace wallTimer {"
                                   " append $constraint[0].entry (* startWallTimer(r); t++; f(); *)"
                                   " append $constraint[0].return (* stopWallTimer(m); *) }"));
  ASSERT_THAT(a.said, IsEmpty()) << a.rendered;
  const format::Metric& m = a.program.manifest.metrics[0];
  EXPECT_THAT(m.cells, ElementsAre(format::Cell{"m"}, format::Cell{"t"}, format::Cell{"u"}));
  EXPECT_THAT(m.replacements[0].cells, ElementsAre(format::Cell{"r", format::CellKind::wall_timer},
                                                   format::Cell{"r.call", format::CellKind::call}));
}

TEST(Sema, ConditionsJump) {
  EXPECT_EQ(lowered("if (long($arg[0]) && long($arg[1])) m++;"),
            "%0 = arg 0; jump_zero %0, L0; %1 = arg 1; jump_zero %1, L0; add_cell m, 1; L0:; ");
}

// Twice: for values that fill their registers, and for others. A conversion needs neither.
TEST(Sema, CodeIsMadeForWholeAndForNarrowValues) {
  Analyzed a =
      analyze_text(metric("foreach f in $procedures { append f.return (* m += $return; *) "
                          "append f.return (* m += int($return); *) }"));
  ASSERT_THAT(a.said, IsEmpty()) << a.rendered;
  ASSERT_THAT(a.program.snippets, SizeIs(3));
  auto run_with = [&](size_t snippet, std::vector<int64_t> constants) {
    ir::Machine machine;
    machine.result = int64_t{7} << 32 | 0xffffffff;
    machine.constants = std::move(constants);
    machine.cells = {0};
    ir::interpret(a.program.snippets[snippet], machine);
    return machine.cells[0];
  };
  EXPECT_EQ(run_with(0, {}), 0x7ffffffff);
  EXPECT_EQ(run_with(1, {0xffffffff, 0x80000000}), -1);
  EXPECT_EQ(run_with(1, {0xffff, 0}), 0xffff);
  EXPECT_EQ(run_with(1, {-1, 0}), 0x7ffffffff);
  EXPECT_EQ(run_with(2, {}), -1);
  const format::Placement& visit = a.program.manifest.metrics[0].placement[0].body[0].body[0];
  EXPECT_EQ(visit.variable, "$point");
  ASSERT_THAT(visit.body, SizeIs(2));
  EXPECT_EQ(visit.body[0].expr.text, "==");
  EXPECT_EQ(visit.body[1].expr.text, "!=");
  EXPECT_EQ(visit.body[0].expr.operands[0].kind, format::ExprKind::value_type);
  EXPECT_EQ(visit.body[0].expr.operands[0].text, "$return");
}

TEST(Sema, MessageIsShortForItsPath) {
  Analyzed a = analyze_text(
      "constraint tag /Message/* is counter { foreach f in $procedures { append f.entry "
      "(* if (int($arg[1]) == $constraint[0]) tag += 1; *) } }\n"
      "constraint all /Message is default;" +
      metric("append $exit.entry (* m++; *)"));
  const std::vector<format::Constraint>& constraints = a.program.manifest.constraints;
  ASSERT_THAT(constraints, SizeIs(2)) << a.rendered;
  EXPECT_THAT(constraints[0].path, ElementsAre("SyncObject", "Message", "*"));
  EXPECT_THAT(constraints[1].path, ElementsAre("SyncObject", "Message"));
}

// Code means what it means in C: run it, and look at the cells.
int64_t run(const std::string& code, std::vector<int64_t> args = {}, const std::string& point = "entry") {
  Analyzed a = analyze_text(metric("foreach f in $procedures append f." + point + " (* " + code + " *)"));
  if (a.program.snippets.size() != 1) {
    ADD_FAILURE() << a.rendered;
    return 0;
  }
  const ir::Snippet& snippet = a.program.snippets[0];
  ir::Machine machine{std::move(args), 0, {}, std::vector<int64_t>(snippet.cells.size()), 0};
  ir::interpret(snippet, machine);
  for (size_t i = 0; i < snippet.cells.size(); i++)
    if (snippet.cells[i].name == "m") return machine.cells[i];
  ADD_FAILURE() << "the code does not name m: " << code;
  return 0;
}

TEST(Sema, CodeMeansWhatItMeansInC) {
  EXPECT_EQ(run("m = 2 + 3 * 4 - 10 / 3;"), 11);
  EXPECT_EQ(run("m = 7 % 3 + -7 % 3 * 10 + 5 % 0 * 100;"), 491);
  EXPECT_EQ(run("t = 5; m = t++ * 10 + t;"), 56);
  EXPECT_EQ(run("t = 5; m = --t * 10 + t--;"), 44);
  EXPECT_EQ(run("m = t = 4; m += u = 3;"), 7);
  EXPECT_EQ(run("t = 3; m = (t += 2) * (t -= 1) + (t *= 2);"), 28);
  EXPECT_EQ(run("m = 1 / 0;"), 0);
  EXPECT_EQ(run("m = ~5 + !0 + !7;"), -5);
  EXPECT_EQ(run("m = (1 < 2) + (2 <= 2) * 2 + (3 > 4) * 4 + (4 >= 4) * 8 + (1 == 1) * 16 + (1 != 1) * 32;"),
            27);
  EXPECT_EQ(run("m = (2 && 3) + (0 || 4) * 2 + (0 && t++) * 4 + (1 || t++) * 8; m = m * 10 + t;"), 110);
  EXPECT_EQ(run("if (long($arg[0]) > 1 || long($arg[1]) == 7) m = 1; else { m = 2; m++; }", {0, 7}), 1);
  EXPECT_EQ(run("if (long($arg[0]) > 1 || long($arg[1]) == 7) m = 1; else { m = 2; m++; }", {0, 6}), 3);
  EXPECT_EQ(run("if (long($arg[0]) > 1 && long($arg[1]) == 7) m = 1; else if (long($arg[0])) m = 4;", {2, 6}),
            4);
}

TEST(Sema, FlagsAreReleased) {
  Analyzed a = analyze_text(
      "constraint c /Code/* is counter { foreach f in $constraint[0].funcs { "
      "append f.entry (* c++; c += -1; *) append f.return (* c--; c -= -1; c -= 2; *) } }");
  ASSERT_THAT(a.said, IsEmpty()) << a.rendered;
  std::vector<ir::Op> ops;
  for (const ir::Snippet& s : a.program.snippets)
    for (const ir::Inst& i : s.insts) ops.push_back(i.op);
  using ir::Op;
  EXPECT_THAT(ops, ElementsAre(Op::add_cell, Op::release, Op::release, Op::add_cell, Op::release));
}

TEST(Sema, OrderOfDefinitionsAndFilesDoesNotMatter) {
  Analyzed a =
      analyze_texts({metric("foreach f in later append f.entry (* m++; *)", "constraint c;"),
                     "constraint c /Code/*/* is default; list later is procedure { items { \"x\" }; }"});
  EXPECT_THAT(a.said, IsEmpty()) << a.rendered;
}

TEST(Sema, FlavorsSelectDefinitions) {
  std::string text = R"(
list l is procedure { items { "a" }; flavor { unix }; }
list l is procedure { items { "b" }; flavor { mpi }; }
list only is procedure { items { "c" }; flavor { mpi }; }
)" + metric("foreach f in l append f.entry (* m++; *) foreach f in only append f.return (* m++; *)");
  EXPECT_THAT(analyze_text(text).said, ElementsAre("3:6 E0105 'l' is defined twice"));
  Analyzed a = analyze_text(text, {Standard::mdl26, "unix"});
  ASSERT_THAT(a.said, IsEmpty()) << a.rendered;
  ASSERT_THAT(a.program.manifest.lists, SizeIs(2));
  EXPECT_THAT(a.program.manifest.lists[0].items, ElementsAre("a"));
  EXPECT_THAT(a.program.manifest.lists[1].items, IsEmpty());
  EXPECT_THAT(analyze_text(text, {Standard::mdl26, "mpi"}).program.manifest.metrics, IsEmpty());
}

TEST(Sema, WhatAPlanCanHoldIsLimited) {
  std::string many = "f.name == \"x\"";
  for (int i = 0; i < 900; i++) many += fmt::format(" || f.name == \"f{}\"", i);
  Analyzed a = analyze_text(metric("foreach f in $procedures if (" + many + ") append f.entry (* m++; *)"));
  ASSERT_THAT(a.said, IsEmpty()) << a.rendered;
  format::Manifest manifest = a.program.manifest;  // with what a backend adds, the injector reads it
  manifest.target = "x86_64";
  for (const ir::Snippet& snippet : a.program.snippets) {
    format::StencilInfo stencil;
    stencil.name = snippet.name;
    stencil.cells.push_back({"m", format::CellKind::counter, true, true});
    manifest.stencils.push_back(std::move(stencil));
  }
  Result<format::Manifest> read = format::read_manifest(format::write_manifest(manifest));
  ASSERT_TRUE(read) << read.error().text;
  EXPECT_EQ(*read, manifest);

  std::string ones = "1";
  for (int i = 0; i < 100; i++) ones += " + 1";
  EXPECT_THAT(
      analyze_text(metric("foreach f in $procedures if (" + ones + ") append f.entry (* m++; *)")).said,
      ElementsAre(HasSubstr("3:30 E0006")));
  std::string nested;
  for (int i = 0; i < 100; i++) nested += "if (1) ";
  EXPECT_THAT(analyze_text(metric(nested + "foreach f in $procedures append f.entry (* m++; *)")).said,
              ElementsAre(HasSubstr("E0006")));
}

TEST(Sema, ErrorsAreLocated) {
  Analyzed a = analyze_text(
      "\nmetric m { name \"x\"; units u;\n style EventCounter; flavor { unix };\n"
      " base is counter { foreach f in $procedures {\n  append f.entry (* m++; q++; $return; *)\n"
      "  append f.exit (* m++; *) } } }\n");
  EXPECT_THAT(a.said, ElementsAre("2:1 E0101 metric 'm' has no 'aggregateOperator'",
                                  "5:26 E0201 'q' is not defined", "5:31 W0303 this expression has no effect",
                                  "5:31 E0302 $return is not known at an entry",
                                  "6:12 E0202 a procedure has no 'exit'"));
}

TEST(Sema, HierarchyPaths) {
  for (const char* path :
       {"/Code/*", "/Code/*/*", "/Machine/*", "/Process/*", "/Thread/*", "/SyncObject/*",
        "/SyncObject/Message/*", "/Message/*", "/File/*", "/Memory/*", "/Code/libc/malloc"}) {
    EXPECT_THAT(analyze_text(fmt::format("constraint c {} is counter {{ }}", path)).said, IsEmpty()) << path;
  }
  for (const char* path : {"/Cod/*", "/Code", "/Code/*/*/*", "/Machine/*/*", "/Message/*/*"}) {
    EXPECT_THAT(analyze_text(fmt::format("constraint c {} is counter {{ }}", path)).said,
                ElementsAre(HasSubstr("1:14 E0106")))
        << path;
  }
}

}  // namespace
}  // namespace mdl
