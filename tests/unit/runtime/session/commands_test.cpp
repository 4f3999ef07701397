// Lines of --commands.
#include "runtime/session/commands.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace mdl::inject {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Commands, TwoWordsAndNoMore) {
  auto add = parse_command("  add  calls@/Code/a ");
  ASSERT_TRUE(add);
  EXPECT_THAT(add->add, ElementsAre("calls@/Code/a"));
  EXPECT_THAT(add->remove, IsEmpty());
  auto remove = parse_command("remove calls");
  ASSERT_TRUE(remove);
  EXPECT_THAT(remove->remove, ElementsAre("calls"));
  for (const char* wrong : {"add", "calls", "add a b", "ADD a"}) EXPECT_FALSE(parse_command(wrong)) << wrong;
}

class CommandsTest : public ::testing::Test {
 protected:
  CommandsTest() : path_(::testing::TempDir() + "commands-" + std::to_string(getpid())) {}
  ~CommandsTest() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }
  const std::string path_;
};

TEST_F(CommandsTest, AFileIsReadAsItGrows) {
  write("add a\n# not\n\n  \nadd ");
  auto commands = Commands::open(path_);
  ASSERT_TRUE(commands);
  EXPECT_THAT(commands->read(), ElementsAre("add a"));
  EXPECT_THAT(commands->read(), IsEmpty());
  write("b\nremove a\n");
  EXPECT_THAT(commands->read(), ElementsAre("add b", "remove a"));
}

TEST_F(CommandsTest, ALongLineIsNoCommand) {
  write("add " + std::string(200000, 'x') + "\nadd b\n");
  auto commands = Commands::open(path_);
  ASSERT_TRUE(commands);
  std::vector<std::string> all;
  for (std::vector<std::string> some; !(some = commands->read()).empty();)
    all.insert(all.end(), some.begin(), some.end());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(parse_command(all[0]));
  EXPECT_EQ(all[1], "add b");
}

TEST_F(CommandsTest, AFifoWithoutAWriterIsNotAtItsEnd) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  auto commands = Commands::open(path_);
  ASSERT_TRUE(commands);
  EXPECT_THAT(commands->read(), IsEmpty());
  for (const char* line : {"add a\n", "add b\n"}) {
    write(line);
    EXPECT_THAT(commands->read(), ElementsAre(std::string(line).substr(0, 5)));
  }
}

TEST_F(CommandsTest, NoFileIsAnError) {
  EXPECT_FALSE(Commands::open(path_));
}

TEST_F(CommandsTest, AFolderOrADeviceIsAnError) {
  for (const char* other : {"/tmp", "/dev/null"}) EXPECT_FALSE(Commands::open(other)) << other;
}

TEST_F(CommandsTest, ALinkOfOnesOwnIsFollowed) {
  write("add a\n");
  const std::string link = path_ + "-link";
  std::filesystem::create_symlink(path_, link);
  auto commands = Commands::open(link);
  std::filesystem::remove(link);
  ASSERT_TRUE(commands);
  EXPECT_THAT(commands->read(), ElementsAre("add a"));
}

TEST_F(CommandsTest, ALinkOfAnotherUserIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make one";
  write("add a\n");
  const std::string link = path_ + "-link";
  std::filesystem::create_symlink(path_, link);
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(Commands::open(link));
  std::filesystem::remove(link);
}

}  // namespace
}  // namespace mdl::inject
