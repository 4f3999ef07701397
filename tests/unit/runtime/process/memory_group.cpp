#include "runtime/process/memory_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace mdl::process {
namespace {

using Folders = std::vector<std::string>;

Folders folders(std::string_view groups, std::string_view mounts) {
  Folders out;
  for (const MemoryGroup& group : memory_groups(groups, mounts)) out.push_back(group.folder);
  return out;
}

TEST(MemoryGroup, isFoundInBothVersionsAndInContainers) {
  constexpr std::string_view kUnified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
  EXPECT_EQ(folders("0::/a.slice/b.service\n", kUnified),
            (Folders{"/sys/fs/cgroup/a.slice/b.service", "/sys/fs/cgroup/a.slice", "/sys/fs/cgroup"}));
  EXPECT_EQ(folders("0::/\n", kUnified), (Folders{"/sys/fs/cgroup"}));  // seen from its own namespace
  EXPECT_EQ(folders("0::/../other\n", kUnified), Folders{});           // from another one's

  constexpr std::string_view kSeparate =
      "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "32 23 0:28 /docker/12 /sys/fs/cgroup/memory ro shared:9 - cgroup cgroup rw,memory\n";
  EXPECT_EQ(folders("5:cpu,cpuacct:/docker/12\n4:memory:/docker/12/sub\n0::/\n", kSeparate),
            (Folders{"/sys/fs/cgroup/memory/sub", "/sys/fs/cgroup/memory"}));
  EXPECT_EQ(folders("4:memory:/docker/12\n", kSeparate), (Folders{"/sys/fs/cgroup/memory"}));
  EXPECT_EQ(folders("4:memory:/docker/123\n", kSeparate), Folders{});
  EXPECT_EQ(folders("nonsense", "nonsense - x"), Folders{});
}

class Room : public testing::Test {
 protected:
  Room() : folder_(testing::TempDir() + "mdl-memory-group") { std::filesystem::create_directories(folder_); }
  ~Room() override { std::filesystem::remove_all(folder_); }
  void write(const char* name, std::string_view text) const { std::ofstream(folder_ + "/" + name) << text << "\n"; }
  std::string folder_;
};

TEST_F(Room, isTheLimitLessWhatIsUsedAndCannotBeDropped) {
  const MemoryGroup group{folder_, true};
  EXPECT_EQ(room_in(group), std::nullopt);
  write("memory.max", "max");
  write("memory.current", "1000");
  EXPECT_EQ(room_in(group), std::nullopt);
  write("memory.max", "1500");
  EXPECT_EQ(room_in(group), 500u);
  write("memory.stat", "anon 600\ninactive_file 100\nactive_file 50\nunevictable 7");
  EXPECT_EQ(room_in(group), 650u);
  write("memory.max", "700");  // lowered since
  EXPECT_EQ(room_in(group), 0u);
}

TEST_F(Room, ofVersionOneCountsItsDescendants) {
  write("memory.limit_in_bytes", "4096");
  write("memory.usage_in_bytes", "4000");
  write("memory.stat", "inactive_file 1\ntotal_inactive_file 400\ntotal_active_file 4");
  EXPECT_EQ(room_in({folder_, false}), 500u);
}

}  // namespace
}  // namespace mdl::process
