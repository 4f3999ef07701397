// mdl-inject's own parts: its command line, and what a plan says of how it is to be used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mdl-inject/defaults.h"
#include "mdl-inject/options.h"
#include "mdl-inject/wrong_words.h"

namespace mdl::inject {
namespace {

constexpr int kUsage = static_cast<int>(Status::usage);

Parsed parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "mdl-inject");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(InjectOptions, Measures) {
  const Parsed p = parsed({"12", "./p.plan", "-m", "calls@/Code/a/b", "-m", "io", "-i", "0.5", "-d", "3"});
  ASSERT_FALSE(p.exit);
  EXPECT_EQ(p.options.command, Command::measure);
  EXPECT_EQ(p.options.pid, 12);
  EXPECT_EQ(p.options.plan, "./p.plan");
  EXPECT_THAT(p.options.metrics, testing::ElementsAre("calls@/Code/a/b", "io"));
  EXPECT_EQ(p.options.interval, 0.5);
  EXPECT_TRUE(p.options.interval_given);
  EXPECT_EQ(p.options.duration, 3);
}

TEST(InjectOptions, Times) {
  for (const auto& [text, seconds] : std::vector<std::pair<const char*, double>>{{"2", 2},
                                                                                 {"0.5s", 0.5},
                                                                                 {"100ms", 0.1},
                                                                                 {"1m", 60},
                                                                                 {"2min", 120},
                                                                                 {"1.5h", 5400},
                                                                                 {"2000us", 0.002}}) {
    EXPECT_DOUBLE_EQ(parsed({"12", "p.plan", "-i", text}).options.interval, seconds) << text;
    EXPECT_DOUBLE_EQ(*parsed({"12", "p.plan", "-d", text}).options.duration, seconds) << text;
  }
  for (const char* text : {"", "s", "1x", "1 s", "m1", "nan", "inf", "1e400", "1ss"})
    EXPECT_EQ(parsed({"12", "p.plan", "-d", text}).exit, kUsage) << text;
}

TEST(InjectOptions, OtherCommands) {
  EXPECT_EQ(parsed({"--list", "12", "a*"}).options.command, Command::list);
  EXPECT_EQ(parsed({"--list", "12", "a*"}).options.glob, "a*");
  EXPECT_EQ(parsed({"--status", "12"}).options.command, Command::status);
  EXPECT_EQ(parsed({"--remove", "12"}).options.command, Command::remove);
  EXPECT_EQ(parsed({"--check", "12"}).options.command, Command::check);
  const Parsed run = parsed({"--run", "./p.plan", "--", "./a.out", "-x", "--list"});
  ASSERT_FALSE(run.exit);
  EXPECT_TRUE(run.options.start);
  EXPECT_THAT(run.options.run, testing::ElementsAre("./a.out", "-x", "--list"));
}

TEST(InjectOptions, QueriesAndSources) {
  const Parsed p = parsed({"12", "count f", "mine.mdl", "sum $arg[0] at f", "count f"});
  ASSERT_FALSE(p.exit);
  EXPECT_THAT(p.options.typed, testing::ElementsAre("count f", "sum $arg[0] at f"));
  EXPECT_THAT(p.options.sources, testing::ElementsAre("mine.mdl"));
  EXPECT_EQ(p.options.plan, "");
  EXPECT_FALSE(p.options.is_query());
  EXPECT_TRUE(parsed({"12", "count f"}).options.is_query());
  for (const char* plan : {"count", "/a b/c", "a b.plan", "a b.bin", "Count f", "./count f", "", " count f"})
    EXPECT_EQ(parsed({"12", plan}).options.plan, plan);
  const Parsed run = parsed({"--run", "count f", "time g", "--", "./a.out", "count f"});
  ASSERT_FALSE(run.exit);
  EXPECT_THAT(run.options.typed, testing::ElementsAre("count f", "time g"));
  EXPECT_THAT(run.options.run, testing::ElementsAre("./a.out", "count f"));
  EXPECT_THAT(parsed({"--run", "count f", "./a.out"}).options.run, testing::ElementsAre("./a.out"));
}

TEST(InjectOptions, ProcessesByName) {
  const Parsed p = parsed({"-p", "redis-server", "count f"});
  ASSERT_FALSE(p.exit);
  EXPECT_EQ(p.options.process, "redis-server");
  EXPECT_EQ(parsed({"-p", "12", "count f"}).options.pid, 12);
  EXPECT_EQ(parsed({"-p", "12", "count f"}).options.process, "");
  EXPECT_EQ(parsed({"--status", "-p", "x"}).options.process, "x");
  EXPECT_EQ(parsed({"--list", "-p", "x", "a*"}).options.glob, "a*");
  EXPECT_EQ(parsed({"--check", "-p", "x"}).options.command, Command::check);
  EXPECT_EQ(parsed({"-p", "x", "--check", "count f"}).options.command, Command::measure);
  EXPECT_TRUE(parsed({"--show-mdl", "count f"}).options.show_mdl);
  EXPECT_THAT(parsed({"--show-mdl", "12", "count f"}).options.typed, testing::ElementsAre("count f"));
}

TEST(InjectOptions, WhatCanBeAsked) {
  EXPECT_EQ(parsed({"12"}).options.command, Command::introduce);
  EXPECT_EQ(parsed({"12"}).options.pid, 12);
  EXPECT_EQ(parsed({"-p", "12"}).options.command, Command::introduce);
  EXPECT_EQ(parsed({"-p", "x"}).options.process, "x");
  EXPECT_EQ(parsed({"--metrics"}).options.command, Command::metrics);
  EXPECT_EQ(parsed({"--metrics"}).options.pid, 0);
  EXPECT_EQ(parsed({"--metrics", "12"}).options.pid, 12);
}

TEST(InjectOptions, WhatIsWrongIsUsage) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {},
           {"twelve", "p.plan"},
           {"-1", "p.plan"},
           {"12", "p.plan", "-i", "0"},
           {"12", "p.plan", "-d", "-1"},
           {"12", "p.plan", "--format", "xml"},
           {"12", "p.plan", "--max-keys", "0"},
           {"12", "p.plan", "--top", "0"},
           {"12", "p.plan", "--sort", "colour"},
           {"--list", "--status", "12"},
           {"12", "p.plan", "--budget", "-1"},
           {"12", "p.plan", "q.plan"},
           {"12", "p.plan", "count f"},
           {"12", "p.plan", "mine.mdl"},
           {"count f"},
           {"12", "-m", "calls"},
           {"12", "-f", "/Thread/*"},
           {"--metrics", "12", "x"},
           {"-p", "0", "count f"},
           {"-p", "x", "--run", "count f"},
           {"--show-mdl", "12"},
           {"12", "count f", "--commands", "lines"},
           {"--status", "12", "count f"},
       }) {
    const Parsed p = parsed(words);
    EXPECT_EQ(p.exit, kUsage) << testing::PrintToString(words);
  }
}

TEST(InjectOptions, QueriesThatAreWrittenOtherwiseAreOnes) {
  for (const char* word : {"p99 malloc", "count(malloc)", "hist($arg[0]) at malloc", "count\nmalloc"})
    EXPECT_EQ(parsed({"12", word}).options.typed, std::vector<std::string>{word});
  for (const char* word : {"9p malloc", "f(x)", "count", "Count f", "count f.plan"})
    EXPECT_TRUE(parsed({"12", word}).options.typed.empty()) << word;
}

TEST(InjectOptions, AnIntervalThatIsMeantInMillisecondsIsNoticed) {
  const auto said = [](std::vector<const char*> words) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(parsed(std::move(words)).exit, std::nullopt);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said({"12", "count f", "-i", "100"}),
              testing::HasSubstr("-i 100 is a line each 100 seconds; -i 100ms is one"));
  EXPECT_THAT(said({"12", "count f", "-i", "50", "-d", "10"}), testing::HasSubstr("note: -i 50"));
  for (const char* interval : {"60", "100s", "2m", "0.5"})
    EXPECT_EQ(said({"12", "count f", "-i", interval}), "") << interval;
  EXPECT_EQ(said({"12", "count f", "-i", "2", "-d", "1"}), "");
}

TEST(InjectOptions, TopStandsInFrontOrBehindTheProcess) {
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"top", "12"}, {"12", "top"}, {"-p", "12", "top"}})
    EXPECT_TRUE(parsed(words).options.busiest) << testing::PrintToString(words);
  EXPECT_FALSE(parsed({"12", "./top"}).options.busiest);
}

TEST(WrongWords, AQueryWithoutItsQuotes) {
  const std::vector<std::string> words = {"count", "malloc", "if", "$arg[0]>1"};
  EXPECT_EQ(without_quotes(words), "a query is one word, in quotes: 'count malloc if $arg[0]>1'");
  EXPECT_EQ(without_quotes(std::vector<std::string>{"a.plan", "b.plan"}), "");
  EXPECT_EQ(without_quotes(std::vector<std::string>{"count"}), "");
}

TEST(WrongWords, AWordThatIsNoFile) {
  const auto beside = [](std::vector<std::string> others) { return beside_query("count call", others); };
  EXPECT_EQ(beside({"where"}), "a query is one word, in quotes: 'count call if CONDITION'");
  EXPECT_EQ(beside({"if", "$arg[0]>1"}), "a query is one word, in quotes: 'count call if $arg[0]>1'");
  EXPECT_EQ(beside({"4712"}), "several processes are named by -p: -p PID,4712");
  EXPECT_EQ(beside({"by", "thread"}), "a query is one word, in quotes: 'count call by thread'");
  EXPECT_EQ(beside({"malloc"}), "'malloc' is no query: the calls of a function are a query: 'count malloc'");
  EXPECT_THAT(beside({"mine.plan"}),
              testing::StartsWith("mine.plan is compiled already, and queries are not"));
  for (const char* probe :
       {"uprobe:libc:malloc { @ = count(); }", "uretprobe:/lib/libc.so.6:malloc /pid == 5/ { }",
        "tracepoint:syscalls:sys_enter_malloc { @[comm] = count(); }"})
    EXPECT_THAT(no_such_plan(probe), testing::HasSubstr("'count malloc'")) << probe;
  EXPECT_THAT(no_such_plan("opensnoop"), testing::HasSubstr("'count open by str($arg[0])'"));
  EXPECT_EQ(no_such_plan("funclatency-bpfcc"), no_such_plan("funclatency"));
  EXPECT_THAT(no_such_plan("biosnoop"), testing::HasSubstr("about the kernel"));
  EXPECT_THAT(no_such_plan("kprobe:do_sys_open { @ = count(); }"), testing::HasSubstr("the kernel is not"));
  EXPECT_THAT(no_such_plan("usdt:/usr/bin/x:probe"), testing::HasSubstr("`mdl-inject --list PID`"));
  EXPECT_EQ(no_such_plan("count"), "a query is one word, in quotes: 'count malloc'");
  EXPECT_EQ(no_such_plan("sum"), "a query is one word, in quotes: 'sum $arg[0] at malloc'");
  EXPECT_EQ(no_such_plan("bytes"), "a query is one word, in quotes: 'bytes by file'");
  EXPECT_EQ(no_such_plan("ns::f"), "the calls of a function are a query: 'count ns::f'");
  EXPECT_THAT(no_such_plan("uprobe:/bin/sh:main { @ = count(); }"), testing::HasSubstr("'count main'"));
  EXPECT_THAT(no_such_plan("BEGIN { @ = count(); }"), testing::StartsWith("a query begins with"));
  for (const char* file : {"./count", "my.plan", "a b.bin"}) EXPECT_EQ(no_such_plan(file), "") << file;
}

TEST(WrongWords, AnOptionThatIsNone) {
  const auto said = [](std::vector<const char*> words) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(parsed(std::move(words)).exit, kUsage);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said({"12", "count f", "--duraton", "1"}),
              testing::HasSubstr("no option --duraton; did you mean --duration?"));
  EXPECT_THAT(said({"12", "--nope"}), testing::HasSubstr("there is no option --nope\n"));
  EXPECT_THAT(said({"12", "-e", "uprobe:libc:malloc { @ = count(); }"}),
              testing::HasSubstr("'count malloc'"));
  EXPECT_THAT(said({"uprobe:libc:malloc { }"}), testing::HasSubstr("'count malloc', 'latency malloc'"));
  for (const char* word : {"record", "stat"})
    EXPECT_THAT(said({word, "-p", "12"}), testing::HasSubstr("what perf is asked is `mdl-inject top 12`"));
  for (const std::vector<const char*>& named : {std::vector<const char*>{"strace", "-fp", "12"},
                                                {"strace", "-p12"},
                                                {"perf", "top", "--pid=12"},
                                                {"opensnoop", "--pid", "12"}})
    EXPECT_THAT(said(named), testing::HasSubstr(" 12")) << named[0];
  EXPECT_THAT(said({"profile", "5"}), testing::HasSubstr("`mdl-inject top PID`"));
  EXPECT_THAT(said({"list", "12"}), testing::HasSubstr("'list' is an option: --list"));
  EXPECT_THAT(said({"12", "-m", "count malloc"}),
              testing::HasSubstr("a query stands without it: 'count malloc'"));
  EXPECT_THAT(said({"--pid", "12", "count f"}),
              testing::HasSubstr("no option --pid: a process stands in front"));
  EXPECT_THAT(said({"--status", "12", "--json"}), testing::HasSubstr("--format ndjson has a line of JSON"));
  EXPECT_THAT(said({"--remove", "12", "--format", "json"}),
              testing::HasSubstr("--format is of measured values"));
  for (const char* command : {"--status", "--metrics"}) {
    EXPECT_EQ(parsed({command, "12", "--format", "json"}).exit, std::nullopt);
    EXPECT_THAT(said({command, "12", "--format", "csv"}),
                testing::HasSubstr(std::string(command) + " prints a table, ndjson"));
  }
  EXPECT_EQ(parsed({"12", "count f", "--dry-run", "--format", "json"}).exit, std::nullopt);
  EXPECT_THAT(said({"12", "count f", "--dry-run", "--format", "csv"}),
              testing::HasSubstr("--dry-run prints a table"));
  EXPECT_THAT(said({"--list", "12", "--format", "influx"}),
              testing::HasSubstr("--list prints a table, ndjson (an object in each line) or json"));
  EXPECT_THAT(said({"strace", "-c", "-p", "12"}), testing::HasSubstr("what strace is asked is `mdl-inject"));
  EXPECT_THAT(said({"12", "count f", "-d", "1m", "-d", "1"}),
              testing::HasSubstr("--duration is given more than once"));
}

TEST(InjectDefaults, TunablesGiveWayToTheCommandLine) {
  format::Manifest manifest;
  manifest.tunables = {{"samplingRate", 0.25}, {"maxKeys", 64}};
  Options options;
  ASSERT_TRUE(apply_defaults(manifest, options));
  EXPECT_EQ(options.interval, 0.25);
  EXPECT_EQ(options.max_keys, 64u);
  Options given;
  given.interval = 3, given.interval_given = true;
  ASSERT_TRUE(apply_defaults(manifest, given));
  EXPECT_EQ(given.interval, 3);
  manifest.tunables = {{"samplingRate", 0}};
  const auto refused = apply_defaults(manifest, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::plan_rejected);
}

TEST(InjectDefaults, TheProcessOfAPlan) {
  format::Manifest manifest;
  Options options;
  options.start = true;
  EXPECT_EQ(apply_defaults(manifest, options).error().status, Status::usage);
  format::ProcessDefinition process;
  process.command = "  ./app   --port 1 ";
  process.flavor = "mpi";
  manifest.processes = {process};
  ASSERT_TRUE(apply_defaults(manifest, options));
  EXPECT_THAT(options.run, testing::ElementsAre("./app", "--port", "1"));
  EXPECT_EQ(options.flavor, "mpi");
  options.run.clear();
  manifest.processes[0].command = " ";
  EXPECT_EQ(apply_defaults(manifest, options).error().status, Status::plan_rejected);
}

}  // namespace
}  // namespace mdl::inject
