// mdl-inject's own parts: its command line, and what a plan says of how it is to be used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mdl-inject/defaults.h"
#include "mdl-inject/options.h"

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

TEST(InjectOptions, WhatIsWrongIsUsage) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {},
           {"twelve", "p.plan"},
           {"-1", "p.plan"},
           {"12"},
           {"12", "p.plan", "-i", "0"},
           {"12", "p.plan", "-d", "-1"},
           {"12", "p.plan", "--format", "xml"},
           {"12", "p.plan", "--max-keys", "0"},
           {"--list", "--status", "12"},
           {"12", "p.plan", "--budget", "-1"},
       }) {
    const Parsed p = parsed(words);
    EXPECT_EQ(p.exit, kUsage) << testing::PrintToString(words);
  }
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
