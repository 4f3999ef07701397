#include "base/confined.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "base/read_text.h"

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

// What its owner's frames hold, a lock among it, is not given back by the other process.
TEST(Confined, WhatThrowsUnwindsNothingOfItsOwner) {
  void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const unwound = static_cast<int*>(memory);
  {
    struct Held {
      int* unwound;
      pid_t owner = getpid();
      ~Held() {
        if (getpid() != owner) ++*unwound;
      }
    } held{unwound};
    auto confined = Confined::start([](const std::string&) -> std::string { throw std::bad_alloc(); }, 10);
    ASSERT_TRUE(confined);
    EXPECT_FALSE(confined->ask(""));
  }
  EXPECT_EQ(*unwound, 0);
  munmap(memory, 4096);
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

TEST(Confined, OutlivesTheThreadThatStartsIt) {
  std::optional<Confined> process;
  std::thread([&] {
    auto started = Confined::start([](const std::string& question) { return question + "!"; }, 10);
    if (started) process.emplace(std::move(*started));
  }).join();
  ASSERT_TRUE(process);
  usleep(50'000);
  const auto answer = process->ask("yes");
  ASSERT_TRUE(answer) << answer.error().text;
  EXPECT_EQ(*answer, "yes!");
}

TEST(Confined, WorksWhileItsOwnerDoesSomethingElse) {
  auto confined = Confined::start(
      [](const std::string& question) { return question == "end" ? exit(0), "" : std::to_string(getpid()); },
      10);
  ASSERT_TRUE(confined);
  const pid_t pid = std::stoi(*confined->ask(""));
  for (const std::string question : {"a", "end"}) {
    kill(pid, SIGSTOP);
    ASSERT_TRUE(confined->send(question));
    EXPECT_FALSE(confined->has_answer());
    kill(pid, SIGCONT);
    while (!confined->has_answer()) usleep(1'000);
    const auto answer = confined->receive();
    EXPECT_EQ(answer ? *answer : "", question == "end" ? "" : std::to_string(pid));
  }
  EXPECT_TRUE(confined->has_answer()) << "an error, at once";
  EXPECT_FALSE(confined->receive());
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

TEST(Confined, EndsWhenItsOwnerIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    auto confined = Confined::start([](const std::string&) { return std::to_string(getpid()); }, 10);
    const std::string pid = confined ? *confined->ask("") : "";
    if (write(ends[1], pid.data(), pid.size()) >= 0) kill(getpid(), SIGKILL);
    _exit(1);
  }
  char pid[16] = {};
  ASSERT_GT(read(ends[0], pid, sizeof pid - 1), 0);
  EXPECT_EQ(waitpid(owner, nullptr, 0), owner);
  bool is_gone = false;
  for (int i = 0; i < 500 && !is_gone; ++i) {
    const std::string stat = read_text(fmt::format("/proc/{}/stat", pid));
    is_gone = stat.empty() || stat.find(") Z") != std::string::npos;
    usleep(10'000);
  }
  EXPECT_TRUE(is_gone);
  close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace mdl
