// Which container the text of /proc/PID/cgroup means, and the names that runtimes have written.
#include "mdl-inject/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace mdl::inject {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

const std::string kA(64, 'a'), kB(64, 'b');

TEST(Containers, GroupsOfAllRuntimes) {
  const std::pair<std::string, std::string> cases[] = {
      {"0::/system.slice/docker-" + kA + ".scope\n", kA},
      {"12:pids:/docker/" + kA + "\n11:memory:/docker/" + kA + "\n1:name=systemd:/docker/" + kA + "\n", kA},
      {"0::/machine.slice/libpod-" + kA + ".scope/container\n", kA},
      {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" + kA +
           ".scope",
       kA},
      {"0::/kubepods/besteffort/pod3f-1/" + kA, kA},
      {"0::/kubepods.slice/crio-" + kA + ".scope", kA},
      {"0::/lxc.payload.web/system.slice/cron.service", "web"},
      {"9:cpu:/lxc/web", "web"},
      {"0::/machine.slice/machine-my\\x2dbox.scope/payload", "my-box"},
      {"0::/machine.slice/systemd-nspawn@web.service/payload", "web"},
  };
  for (const auto& [text, label] : cases) EXPECT_THAT(containers_in(text), ElementsAre(label)) << text;
  EXPECT_THAT(containers_in("0::/docker/" + kA + "/docker/" + kB), ElementsAre(kA, kB));
}

TEST(Containers, NoContainer) {
  for (const std::string& text :
       {std::string(), std::string("\n\n"), std::string("0::/"), std::string("0"), std::string("0:"),
        std::string("::"), std::string("0::/user.slice/user-1000.slice/session-2.scope"),
        "0::/machine.slice/libpod-conmon-" + kA + ".scope", "0::/x" + kA,
        "0::/docker-" + kA.substr(1) + ".scope", std::string("0::/lxc.payload./x"), std::string("0::/lxc/"),
        std::string("0::/machine.slice/machine-.scope"), std::string("0::/docker-") + std::string(64, 'Z')})
    EXPECT_THAT(containers_in(text), IsEmpty()) << text;
  EXPECT_THAT(containers_in("0::/machine.slice/machine-a\\x2.scope"), ElementsAre("a\\x2"));
}

// The group itself is meant, and not another one that is called so.
TEST(Containers, GroupsOfOne) {
  const std::string scope = "0::/system.slice/docker-" + kA + ".scope";
  EXPECT_THAT(groups_in(scope + "/inner/below\n", kA), ElementsAre(scope));
  EXPECT_THAT(groups_in("12:pids:/docker/" + kA + "\n1:name=systemd:/\n0::\n", kA),
              ElementsAre("12:pids:/docker/" + kA));
  EXPECT_THAT(groups_in(scope, kB), IsEmpty());
  const std::vector<std::string> groups{scope};
  EXPECT_TRUE(is_in_groups("1:cpu:/\n" + scope + "\n", groups));
  EXPECT_TRUE(is_in_groups(scope + "/inner", groups));
  EXPECT_FALSE(is_in_groups(scope + "2", groups));
  EXPECT_FALSE(is_in_groups("0::/user.slice/docker-" + kA + ".scope", groups));
  EXPECT_FALSE(is_in_groups("", groups));
}

class ContainerNames : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "containersXXXXXX";
    root_ = mkdtemp(folder.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
};

TEST_F(ContainerNames, OfAllRuntimes) {
  write("var/lib/docker/containers/" + kA + "/config.v2.json", R"({"ID": "x", "Name": "/web"})");
  write("var/lib/containers/storage/overlay-containers/containers.json",
        R"([{"id": ")" + kB + R"(", "names": ["db", "database"]}, {"id": 3}, 4])");
  write(
      "run/containerd/io.containerd.runtime.v2.task/k8s.io/" + kA + "/config.json",
      R"({"annotations": {"io.kubernetes.cri.container-name": "app", "io.kubernetes.cri.sandbox-name": "pod-1"}})");
  EXPECT_THAT(container_names(root_),
              UnorderedElementsAre(Pair(kA, "web"), Pair(kB, "db"), Pair(kB, "database"), Pair(kA, "app"),
                                   Pair(kA, "pod-1/app")));
}

TEST_F(ContainerNames, BadFiles) {
  EXPECT_THAT(container_names(root_), IsEmpty());
  write("var/lib/docker/containers/" + kA + "/config.v2.json", "{");
  write("var/lib/docker/containers/" + kB + "/config.v2.json", R"({"Name": 5})");
  write("var/lib/docker/containers/c/config.v2.json", "[]");
  write("var/lib/docker/containers/file", "");
  write("var/lib/containers/storage/overlay-containers/containers.json", R"({"id": 1})");
  write("run/containerd/io.containerd.runtime.v2.task/k8s.io/" + kA + "/config.json",
        R"({"annotations": [1]})");
  EXPECT_THAT(container_names(root_), IsEmpty());
}

}  // namespace
}  // namespace mdl::inject
