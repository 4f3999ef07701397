#include "base/confined.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace mdl {
namespace {

using testing::HasSubstr;

TEST(Confined, AnswersAndKeepsState) {
  int asked = 0;
  auto confined = Confined::start(
      [&asked](const std::string& question) { return question + std::to_string(++asked); }, 10);
  ASSERT_TRUE(confined);
  EXPECT_EQ(*confined->ask("a"), "a1");
  EXPECT_EQ(*confined->ask(std::string("b\0c", 3)), std::string("b\0c2", 4));
  const std::string large(5'000'000, 'x');
  EXPECT_EQ(*confined->ask(large), large + "3");
  EXPECT_EQ(*confined->ask(""), "4");
  EXPECT_EQ(asked, 0) << "it must not run here";
}

TEST(Confined, ACrashIsAnError) {
  auto confined = Confined::start(
      [](const std::string& question) -> std::string {
        if (question == "crash") raise(SIGSEGV);
        return "well";
      },
      10);
  ASSERT_TRUE(confined);
  EXPECT_EQ(*confined->ask(""), "well");
  auto crashed = confined->ask("crash");
  ASSERT_FALSE(crashed);
  EXPECT_THAT(crashed.error().text, HasSubstr("Segmentation fault"));
  auto after = confined->ask("");
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().text, crashed.error().text);
}

TEST(Confined, WhatDoesNotEndIsAnError) {
  auto confined = Confined::start(
      [](const std::string&) -> std::string {
        for (volatile bool forever = true; forever;) continue;
        return "";
      },
      1);
  ASSERT_TRUE(confined);
  auto answer = confined->ask("");
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().text, HasSubstr("CPU time limit"));
}

// A lock on a file would outlive its owner, and an interrupt at the terminal is its owner's to decide on.
TEST(Confined, HasNoFilesAndNoHandlers) {
  const int null = open("/dev/null", O_RDONLY);
  const int file = fcntl(null, F_DUPFD, 10);
  close(null);
  ASSERT_GE(file, 10);
  auto confined = Confined::start(
      [file](const std::string&) {
        raise(SIGINT);
        return std::string(fcntl(file, F_GETFD) < 0 && errno == EBADF ? "closed" : "open");
      },
      10);
  close(file);
  ASSERT_TRUE(confined);
  EXPECT_EQ(*confined->ask(""), "closed");
}

TEST(Confined, EndsWithItsOwner) {
  std::string pid;
  {
    auto confined = Confined::start([](const std::string&) { return std::to_string(getpid()); }, 10);
    ASSERT_TRUE(confined);
    pid = *confined->ask("");
    Confined moved = std::move(*confined);
    EXPECT_EQ(*moved.ask(""), pid);
  }
  EXPECT_EQ(kill(std::stoi(pid), 0), -1);
}

}  // namespace
}  // namespace mdl
